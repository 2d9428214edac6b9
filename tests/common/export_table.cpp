// Of no driver's use to the product, but a part of every libcuda.so.1 for tests: NVRTC 13 asks the driver
// that is loaded for a table of its cache, and does not look what it got where there is no such function.
#include <cuda.h>

extern "C" __attribute__((visibility("default"))) CUresult cuGetExportTable(const void** table,
                                                                            const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
