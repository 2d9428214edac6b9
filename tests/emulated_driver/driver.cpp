// A stand-in for libcuda.so.1 with one device, for machines without a GPU: the functions that the device room
// uses, with faults, hangs and wrong results on demand. Launches run at once, on the host, in the calling
// thread.
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "bench/xor_args.hpp"
#include "tests/emulated_driver/control.hpp"
#include "tests/emulated_driver/emulation.hpp"
#include "tests/emulated_driver/memory.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace ec::test::emulated {
namespace {

struct Failure {
  unsigned nth;
  CUresult result;
  bool sticky;
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, unsigned> calls;
  std::map<std::string, Failure> failures;
  CUresult sticky = CUDA_SUCCESS;
  unsigned context_users = 0;
  bool hanging = false;
  bool corrupting = false;
  std::vector<Launch> hung;
};

State& state() {
  static State* s = new State;
  return *s;
}

thread_local unsigned contexts_pushed = 0;

/// Counts the call; what it must answer instead of doing its work, or CUDA_SUCCESS.
CUresult enter(const char* symbol, bool needs_context = true) {
  State& s = state();
  const unsigned nth = ++s.calls[symbol];
  if (const auto at = s.failures.find(symbol); at != s.failures.end() && at->second.nth == nth) {
    if (at->second.sticky) s.sticky = at->second.result;
    return at->second.result;
  }
  if (!needs_context) return CUDA_SUCCESS;
  if (s.sticky != CUDA_SUCCESS) return s.sticky;
  return contexts_pushed == 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

int context_object;
int module_object;
int stream_objects;

const Control control{
    .reset =
        [] {
          std::lock_guard lock(state().mutex);
          state().calls.clear();
          state().failures.clear();
          state().sticky = CUDA_SUCCESS;
          state().hanging = state().corrupting = false;
          state().hung.clear();
        },
    .fail =
        [](const char* symbol, unsigned nth, CUresult result, bool sticky) {
          std::lock_guard lock(state().mutex);
          state().failures[symbol] = {state().calls[symbol] + nth, result, sticky};
        },
    .hang =
        [] {
          std::lock_guard lock(state().mutex);
          state().hanging = true;
        },
    .finish_hung =
        [] {
          std::lock_guard lock(state().mutex);
          for (const Launch& l : state().hung) run(l, false);
          state().hung.clear();
          state().hanging = false;
        },
    .corrupt =
        [] {
          std::lock_guard lock(state().mutex);
          state().corrupting = true;
        },
    .calls =
        [](const char* symbol) {
          std::lock_guard lock(state().mutex);
          return state().calls[symbol];
        },
    .all_calls =
        [] {
          std::lock_guard lock(state().mutex);
          unsigned sum = 0;
          for (const auto& [symbol, n] : state().calls) sum += n;
          return sum;
        },
    .pinned_bytes = [] { return pinned_bytes(); },
    .device_bytes = [] { return device_bytes(); },
};

}  // namespace
}  // namespace ec::test::emulated

using namespace ec::test::emulated;  // NOLINT: the C functions below are all this file is for

EXPORTED const Control* emulated_driver_control() { return &control; }

// Each function: count, answer the failure that is due, otherwise do the work.
#define ENTER(symbol, needs_context)   \
  std::lock_guard lock(state().mutex); \
  if (const CUresult due = enter(symbol, needs_context); due != CUDA_SUCCESS) return due

EXPORTED CUresult cuInit(unsigned) {
  ENTER("cuInit", false);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion", false);
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuGetErrorName(CUresult error, const char** name) {
  std::lock_guard lock(state().mutex);
  static std::map<CUresult, std::string> names;
  *name = names.try_emplace(error, "EMULATED_ERROR_" + std::to_string(error)).first->second.c_str();
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount", false);
  *count = 1;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER("cuDeviceGet", false);
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  ENTER("cuDeviceGetName", false);
  std::strncpy(name, "emulated device", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  ENTER("cuDeviceGetAttribute", false);
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 9;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  if (state().context_users++ == 0) state().sticky = CUDA_SUCCESS;
  *context = reinterpret_cast<CUcontext>(&context_object);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  ENTER("cuDevicePrimaryCtxRelease_v2", false);
  --state().context_users;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuCtxPushCurrent_v2(CUcontext) {
  ENTER("cuCtxPushCurrent_v2", false);
  ++contexts_pushed;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuCtxPopCurrent_v2(CUcontext*) {
  ENTER("cuCtxPopCurrent_v2", false);
  --contexts_pushed;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuModuleLoadData(CUmodule* module, const void*) {
  ENTER("cuModuleLoadData", true);
  *module = reinterpret_cast<CUmodule>(&module_object);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuModuleUnload(CUmodule) {
  ENTER("cuModuleUnload", true);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  ENTER("cuModuleGetFunction", true);
  const Kernel* kernel = find_kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel*>(kernel));
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned,
                                 unsigned block_x, unsigned block_y, unsigned, unsigned shared, CUstream,
                                 void** parameters, void**) {
  ENTER("cuLaunchKernel", true);
  if (reinterpret_cast<const Kernel*>(function)->kind == Kernel::Kind::sum) {
    run_xor(*static_cast<const ec::bench::XorArgs*>(parameters[0]));
    return CUDA_SUCCESS;
  }
  Launch launch{reinterpret_cast<const Kernel*>(function), grid_x, grid_y, block_x, block_y, shared, {}};
  std::memcpy(launch.parameter.data(), parameters[0], parameter_bytes(*launch.kernel));
  const CUresult verdict = check(launch);
  if (verdict == CUDA_ERROR_INVALID_VALUE) return verdict;
  if (verdict != CUDA_SUCCESS)
    state().sticky = verdict;  // the launch is accepted, the fault shows later
  else if (state().hanging)
    state().hung.push_back(launch);
  else
    run(launch, state().corrupting);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ENTER("cuStreamCreate", true);
  *stream = reinterpret_cast<CUstream>(&stream_objects);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamDestroy_v2(CUstream) {
  ENTER("cuStreamDestroy_v2", true);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamQuery(CUstream) {
  ENTER("cuStreamQuery", true);
  return state().hung.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORTED CUresult cuStreamSynchronize(CUstream) {
  ENTER("cuStreamSynchronize", true);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  ENTER("cuStreamIsCapturing", true);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  ENTER("cuStreamWaitEvent", true);
  return CUDA_SUCCESS;
}
// Work is done when it is launched, so an event is the time at which it was recorded.
using Event = std::chrono::steady_clock::time_point;
EXPORTED CUresult cuEventCreate(CUevent* event, unsigned) {
  ENTER("cuEventCreate", true);
  *event = reinterpret_cast<CUevent>(new Event);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuEventDestroy_v2(CUevent event) {
  ENTER("cuEventDestroy_v2", true);
  delete reinterpret_cast<Event*>(event);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuEventRecord(CUevent event, CUstream) {
  ENTER("cuEventRecord", true);
  *reinterpret_cast<Event*>(event) = Event::clock::now();
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuEventSynchronize(CUevent) {
  ENTER("cuEventSynchronize", true);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime  // the header renames it to its second version, which old drivers have not
EXPORTED CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  ENTER("cuEventElapsedTime", true);
  *milliseconds = std::chrono::duration<float, std::milli>(*reinterpret_cast<Event*>(to) -
                                                           *reinterpret_cast<Event*>(from))
                      .count();
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  ENTER("cuMemAlloc_v2", true);
  auto* p = allocate_device(bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(p);
  return p == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORTED CUresult cuMemFree_v2(CUdeviceptr pointer) {
  ENTER("cuMemFree_v2", true);
  return free_device(reinterpret_cast<std::uint8_t*>(pointer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORTED CUresult cuMemAllocAsync(CUdeviceptr* pointer, std::size_t bytes, CUstream) {
  ENTER("cuMemAllocAsync", true);
  auto* p = allocate_device(bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(p);
  return p == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORTED CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream) {
  ENTER("cuMemFreeAsync", true);
  return free_device(reinterpret_cast<std::uint8_t*>(pointer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORTED CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc", true);
  *pointer = allocate_pinned(bytes);
  return *pointer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORTED CUresult cuMemFreeHost(void* pointer) {
  ENTER("cuMemFreeHost", true);
  return free_pinned(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORTED CUresult cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned) {
  ENTER("cuMemHostRegister_v2", true);
  return register_pinned(pointer, bytes) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
EXPORTED CUresult cuMemHostUnregister(void* pointer) {
  ENTER("cuMemHostUnregister", true);
  return unregister_pinned(pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
EXPORTED CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* seen, void* pointer, unsigned) {
  ENTER("cuMemHostGetDevicePointer_v2", true);
  *seen = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                         CUdeviceptr pointer) {
  ENTER("cuPointerGetAttributes", true);
  const Block block = block_of(reinterpret_cast<const void*>(pointer));
  const bool known = block.bytes != 0;
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = !known            ? 0
                                             : block.on_device ? CU_MEMORYTYPE_DEVICE
                                                               : CU_MEMORYTYPE_HOST;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr*>(values[i]) = known ? pointer : 0;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = reinterpret_cast<CUdeviceptr>(block.start);
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(values[i]) = block.bytes;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  ENTER("cuMemcpyHtoD_v2", true);
  std::memcpy(view(reinterpret_cast<void*>(to)), from, bytes);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  ENTER("cuMemcpyDtoH_v2", true);
  std::memcpy(to, view(reinterpret_cast<void*>(from)), bytes);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  ENTER("cuMemcpyHtoDAsync_v2", true);
  std::memcpy(view(reinterpret_cast<void*>(to)), from, bytes);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoHAsync_v2", true);
  std::memcpy(to, view(reinterpret_cast<void*>(from)), bytes);
  return CUDA_SUCCESS;
}
#undef cuMemcpyBatchAsync
EXPORTED CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes,
                                        std::size_t count, CUmemcpyAttributes*, std::size_t*, std::size_t,
                                        CUstream stream) {
  ENTER("cuMemcpyBatchAsync_v2", true);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (std::size_t i = 0; i < count; ++i)
    std::memmove(view(reinterpret_cast<void*>(to[i])), view(reinterpret_cast<void*>(from[i])), sizes[i]);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoDAsync_v2", true);
  std::memmove(view(reinterpret_cast<void*>(to)), view(reinterpret_cast<void*>(from)), bytes);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  ENTER("cuMemsetD8Async", true);
  std::memset(view(reinterpret_cast<void*>(to)), value, bytes);
  return CUDA_SUCCESS;
}
