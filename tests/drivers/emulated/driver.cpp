// A stand-in for libcuda.so.1 with one device, or as many as EC_EMULATED_DEVICES says (at most 8), shared by
// MPS if EC_EMULATED_MPS is 1, for machines without a GPU: the functions that the device room and ec_bench
// use. The device's address of pinned memory is EC_EMULATED_SHIFT higher than the host's. Launches run at
// once, on the host, in the calling thread. It does what it is asked to; what goes wrong on demand is the
// business of tests/drivers/fault in front of it.
#include <cuda.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/drivers/emulated/emulation.hpp"
#include "tests/drivers/emulated/memory.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace ec::test::emulated {
namespace {

/// What a CUfunction points to: a kernel in the context that was current when its module was loaded.
struct Function {
  const Kernel* kernel;
  int ordinal;
};
const Function& at(CUfunction function) { return *reinterpret_cast<const Function*>(function); }

/// A module as cuModuleLoadData makes it: all kernels of the fat binaries are in it.
struct Module {
  int ordinal = 0;                  ///< of the device in whose context it was loaded
  std::list<Function> functions{};  ///< that were asked for
};

constexpr int most_devices = 8;

/// The context of a device; a CUcontext is the address of one. It ends with its last user.
struct Context {
  unsigned users = 0;
  CUresult sticky = CUDA_SUCCESS;
};

struct State {
  std::recursive_mutex mutex;
  Context contexts[most_devices];
  std::map<CUmodule, std::unique_ptr<Module>> modules;
  std::map<CUstream, std::unique_ptr<int>> streams;  ///< ordinals of their devices
};

State& state() {
  static State* s = new State;
  return *s;
}

/// Ordinals of the devices whose contexts this thread has pushed.
thread_local std::vector<int> contexts_pushed;

/// What a variable says.
int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

int devices() { return std::clamp(number("EC_EMULATED_DEVICES", 1), 1, most_devices); }

/// What a function answers that needs the context, instead of doing its work.
CUresult context_state() {
  if (contexts_pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  const Context& context = state().contexts[contexts_pushed.back()];
  return context.users == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context.sticky;
}

}  // namespace
}  // namespace ec::test::emulated

using namespace ec::test::emulated;  // NOLINT: the C functions below are all this file is for
using Kind = Block::Kind;

#define LOCK() std::lock_guard lock(state().mutex)
#define ENTER() \
  LOCK();       \
  if (const CUresult due = context_state(); due != CUDA_SUCCESS) return due

// A function that does its work, the statements behind the parameters, and succeeds; the second kind only in
// a context that is sound.
#define ANYWHERE(name, parameters, ...) \
  EXPORTED CUresult name parameters {   \
    LOCK();                             \
    __VA_ARGS__;                        \
    return CUDA_SUCCESS;                \
  }
#define IN_CONTEXT(name, parameters, ...) \
  EXPORTED CUresult name parameters {     \
    ENTER();                              \
    __VA_ARGS__;                          \
    return CUDA_SUCCESS;                  \
  }

namespace {

std::uint8_t* address(CUdeviceptr pointer) { return reinterpret_cast<std::uint8_t*>(pointer); }

CUresult failure_unless(bool done, CUresult failure) { return done ? CUDA_SUCCESS : failure; }

/// A default stream is that of the context that is current.
int ordinal_of(CUstream stream) {
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  return is_default ? contexts_pushed.back() : *reinterpret_cast<int*>(stream);
}

}  // namespace

ANYWHERE(cuInit, (unsigned), )
ANYWHERE(cuDeviceGetCount, (int* count), *count = devices())
ANYWHERE(cuDeviceGet, (CUdevice * device, int ordinal), *device = ordinal)
ANYWHERE(cuDeviceGetName, (char* name, int length, CUdevice),
         std::strncpy(name, "emulated device", static_cast<std::size_t>(length)))
ANYWHERE(cuCtxPushCurrent_v2, (CUcontext context),
         contexts_pushed.push_back(static_cast<int>(reinterpret_cast<Context*>(context) - state().contexts)))
ANYWHERE(cuCtxPopCurrent_v2, (CUcontext*), contexts_pushed.pop_back())
IN_CONTEXT(cuCtxSetLimit, (CUlimit, std::size_t), )

EXPORTED CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuGetErrorName(CUresult error, const char** name) {
  LOCK();
  static auto& names = *new std::map<CUresult, std::string>;
  *name = names.try_emplace(error, "EMULATED_ERROR_" + std::to_string(error)).first->second.c_str();
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  constexpr auto mps_enabled = static_cast<CUdevice_attribute>(133);
  *value = attribute == mps_enabled                                ? number("EC_EMULATED_MPS", 0)
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4
           : attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID         ? -1
                                                                   : compute_capability;
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  LOCK();
  Context& retained = state().contexts[device];
  if (retained.users++ == 0) retained.sticky = CUDA_SUCCESS;
  *context = reinterpret_cast<CUcontext>(&retained);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  LOCK();
  Context& released = state().contexts[device];
  if (released.users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--released.users == 0) {
    free_everything(device);
    std::erase_if(state().modules, [&](const auto& entry) { return entry.second->ordinal == device; });
    std::erase_if(state().streams, [&](const auto& entry) { return *entry.second == device; });
  }
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER();
  // Fat binaries begin with a number.
  constexpr unsigned char fat_binary[] = {0x50, 0xed, 0x55, 0xba};
  if (std::memcmp(image, fat_binary, sizeof fat_binary) != 0) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<Module>();
  made->ordinal = contexts_pushed.back();
  *module = reinterpret_cast<CUmodule>(made.get());
  state().modules[*module] = std::move(made);
  return CUDA_SUCCESS;
}
IN_CONTEXT(cuModuleUnload, (CUmodule module),
           return failure_unless(state().modules.erase(module) != 0, CUDA_ERROR_INVALID_HANDLE))
EXPORTED CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER();
  const auto found = state().modules.find(module);
  if (found == state().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  Module& holder = *found->second;
  const Kernel* kernel = find_kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  holder.functions.push_back({kernel, holder.ordinal});
  *function = reinterpret_cast<CUfunction>(&holder.functions.back());
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                                     std::size_t* bytes) {
  if (index != 0) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *bytes = parameter_bytes(*at(function).kernel);
  return CUDA_SUCCESS;
}
EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned,
                                 unsigned block_x, unsigned block_y, unsigned, unsigned shared,
                                 CUstream stream, void** parameters, void**) {
  ENTER();
  const auto& [kernel, ordinal] = at(function);
  if (ordinal != contexts_pushed.back()) return CUDA_ERROR_INVALID_HANDLE;
  if (ordinal_of(stream) != ordinal) return CUDA_ERROR_INVALID_HANDLE;
  Launch launch{kernel, grid_x, grid_y, block_x, block_y, shared, {}};
  launch.ordinal = ordinal;
  std::memcpy(launch.parameter.data(), parameters[0], parameter_bytes(*launch.kernel));
  const CUresult verdict = check(launch);
  if (verdict == CUDA_ERROR_INVALID_VALUE) return verdict;
  if (verdict != CUDA_SUCCESS)
    state().contexts[ordinal].sticky = verdict;  // the launch is accepted, the fault shows later
  else
    run(launch);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ENTER();
  auto made = std::make_unique<int>(contexts_pushed.back());
  *stream = reinterpret_cast<CUstream>(made.get());
  state().streams[*stream] = std::move(made);
  return CUDA_SUCCESS;
}
IN_CONTEXT(cuStreamDestroy_v2, (CUstream stream),
           return failure_unless(state().streams.erase(stream) != 0, CUDA_ERROR_INVALID_HANDLE))
IN_CONTEXT(cuStreamGetCtx, (CUstream stream, CUcontext* context),
           *context = reinterpret_cast<CUcontext>(&state().contexts[ordinal_of(stream)]))
IN_CONTEXT(cuStreamQuery, (CUstream), )
IN_CONTEXT(cuStreamSynchronize, (CUstream), )
IN_CONTEXT(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus* status),
           *status = CU_STREAM_CAPTURE_STATUS_NONE)

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  ENTER();
  auto* p = allocate_device(bytes, contexts_pushed.back());
  *pointer = reinterpret_cast<CUdeviceptr>(p);
  return failure_unless(p != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
}
IN_CONTEXT(cuMemFree_v2, (CUdeviceptr pointer),
           return failure_unless(release(Kind::device, address(pointer)), CUDA_ERROR_INVALID_VALUE))
IN_CONTEXT(cuMemAllocAsync, (CUdeviceptr * pointer, std::size_t bytes, CUstream),
           return cuMemAlloc_v2(pointer, bytes))
IN_CONTEXT(cuMemFreeAsync, (CUdeviceptr pointer, CUstream), return cuMemFree_v2(pointer))
EXPORTED CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ENTER();
  *pointer = allocate_pinned(bytes, contexts_pushed.back());
  return failure_unless(*pointer != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
}
IN_CONTEXT(cuMemFreeHost, (void* pointer),
           return failure_unless(release(Kind::pinned, pointer), CUDA_ERROR_INVALID_VALUE))
IN_CONTEXT(cuMemHostRegister_v2, (void* pointer, std::size_t bytes, unsigned),
           return failure_unless(register_pinned(pointer, bytes, contexts_pushed.back()),
                                 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED))
IN_CONTEXT(cuMemHostUnregister, (void* pointer),
           return failure_unless(release(Kind::registered, pointer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED))
EXPORTED CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* seen, void* pointer, unsigned) {
  ENTER();
  *seen = reinterpret_cast<CUdeviceptr>(pointer) + static_cast<unsigned>(number("EC_EMULATED_SHIFT", 0));
  return failure_unless(block_of(pointer).kind != Kind::unknown, CUDA_ERROR_INVALID_VALUE);
}
EXPORTED CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                         CUdeviceptr pointer) {
  ENTER();
  const Block block = block_of(address(pointer));
  const bool known = block.kind != Kind::unknown;
  const bool on_device = block.kind == Kind::device;
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = !known      ? 0
                                             : on_device ? CU_MEMORYTYPE_DEVICE
                                                         : CU_MEMORYTYPE_HOST;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = !known ? -2 : on_device ? block.ordinal : contexts_pushed.back();
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

IN_CONTEXT(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, std::size_t bytes),
           std::memcpy(view(address(to)), from, bytes))
IN_CONTEXT(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, std::size_t bytes),
           std::memcpy(to, view(address(from)), bytes))
IN_CONTEXT(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream),
           std::memcpy(view(address(to)), from, bytes))
IN_CONTEXT(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes, CUstream),
           std::memcpy(to, view(address(from)), bytes))
IN_CONTEXT(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream),
           std::memmove(view(address(to)), view(address(from)), bytes))
IN_CONTEXT(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream),
           std::memset(view(address(to)), value, bytes))
