// The CUDA driver, opened at run time: one table of functions through which every call of this room goes.
// Nothing links libcuda, so the same file runs where there is no driver.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "support/text.hpp"

namespace ec::kernels::cuda {

// X(name, symbol, type): the symbol is the versioned one that libcuda.so.1 exports, the type its PFN in
// cudaTypedefs.h.
#define EC_CUDA_DRIVER_FUNCTIONS(X)                                                          \
  X(init, cuInit, PFN_cuInit_v2000)                                                          \
  X(get_error_name, cuGetErrorName, PFN_cuGetErrorName_v6000)                                \
  X(device_get_count, cuDeviceGetCount, PFN_cuDeviceGetCount_v2000)                          \
  X(device_get, cuDeviceGet, PFN_cuDeviceGet_v2000)                                          \
  X(device_get_name, cuDeviceGetName, PFN_cuDeviceGetName_v2000)                             \
  X(device_get_attribute, cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000)              \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)        \
  X(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000) \
  X(ctx_push_current, cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000)                       \
  X(ctx_pop_current, cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000)                          \
  X(module_load_data, cuModuleLoadData, PFN_cuModuleLoadData_v2000)                          \
  X(module_unload, cuModuleUnload, PFN_cuModuleUnload_v2000)                                 \
  X(module_get_function, cuModuleGetFunction, PFN_cuModuleGetFunction_v2000)                 \
  X(launch_kernel, cuLaunchKernel, PFN_cuLaunchKernel_v4000)                                 \
  X(stream_create, cuStreamCreate, PFN_cuStreamCreate_v2000)                                 \
  X(stream_destroy, cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000)                           \
  X(stream_query, cuStreamQuery, PFN_cuStreamQuery_v2000)                                    \
  X(stream_get_ctx, cuStreamGetCtx, PFN_cuStreamGetCtx_v9020)                                \
  X(stream_is_capturing, cuStreamIsCapturing, PFN_cuStreamIsCapturing_v10000)                \
  X(mem_alloc, cuMemAlloc_v2, PFN_cuMemAlloc_v3020)                                          \
  X(mem_free, cuMemFree_v2, PFN_cuMemFree_v3020)                                             \
  X(mem_alloc_async, cuMemAllocAsync, PFN_cuMemAllocAsync_v11020)                            \
  X(mem_free_async, cuMemFreeAsync, PFN_cuMemFreeAsync_v11020)                               \
  X(mem_host_alloc, cuMemHostAlloc, PFN_cuMemHostAlloc_v2020)                                \
  X(mem_free_host, cuMemFreeHost, PFN_cuMemFreeHost_v2000)                                   \
  X(mem_host_register, cuMemHostRegister_v2, PFN_cuMemHostRegister_v6050)                    \
  X(mem_host_unregister, cuMemHostUnregister, PFN_cuMemHostUnregister_v4000)                 \
  X(device_pointer, cuMemHostGetDevicePointer_v2, PFN_cuMemHostGetDevicePointer_v3020)       \
  X(pointer_get_attributes, cuPointerGetAttributes, PFN_cuPointerGetAttributes_v7000)        \
  X(memcpy_htod_async, cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020)                    \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                    \
  X(memset_d8_async, cuMemsetD8Async, PFN_cuMemsetD8Async_v3020)                             \
  X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode,                         \
    PFN_cuThreadExchangeStreamCaptureMode_v10010)                                            \
  X(ctx_set_limit, cuCtxSetLimit, PFN_cuCtxSetLimit_v3010)                                   \
  X(stream_synchronize, cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                  \
  X(memcpy_htod, cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020)                                    \
  X(memcpy_dtoh, cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020)

/// The functions of an open driver; immutable, lives as long as the process.
struct Driver {
#define EC_DECLARE(name, symbol, type) type name = nullptr;
  EC_CUDA_DRIVER_FUNCTIONS(EC_DECLARE)
#undef EC_DECLARE

  /// The functions of `library`, which is opened the first time and never closed: the driver keeps threads of
  /// its own. Throws std::runtime_error with the reason on failure. Thread safe.
  static const Driver& open(const std::string& library);

  /// The enumerator's name ("CUDA_ERROR_LAUNCH_FAILED"), or its number.
  support::Text<63> error_name(CUresult result) const noexcept;
};

/// Whether the driver, asked about a stream, reports that the work itself is over. After any other error its
/// end is open: a kernel may still run, and write.
bool is_over(CUresult answer);

}  // namespace ec::kernels::cuda
