// Codes tensors in GPU memory, loses m of them, and recovers them there. Coding and recovery move nothing to
// the host; this program looks at the result there.
//
// usage: code_tensors
// Exit status: 0 recovered, 77 if there is no GPU, 1 on an error.
//
// Uses the driver API, opened at run time, so that it also starts where there is no driver. A program on the
// CUDA runtime does the same with cudaMalloc and cudaMemcpy: both share the device's primary context.
#include <cuda.h>
#include <dlfcn.h>

#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ec/codec.hpp"

namespace {

constexpr unsigned k = 8, m = 3;
constexpr std::size_t floats = 1 << 18;  // in each tensor
constexpr std::size_t tensor_bytes = floats * sizeof(float);

struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The part of the driver that is used here.
class Driver {
 public:
  Driver() {
    if (library_ == nullptr) throw NoGpu(dlerror());
    if (const CUresult r = function<decltype(cuInit)>("cuInit")(0); r != CUDA_SUCCESS)
      throw NoGpu("cuInit answers " + std::to_string(r));
    // libeccoder works on device 0 unless EC_CUDA_DEVICES names another.
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (const CUresult r = function<decltype(cuDeviceGet)>("cuDeviceGet")(&device, 0); r != CUDA_SUCCESS)
      throw NoGpu("cuDeviceGet answers " + std::to_string(r));
    check(function<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, device),
          "context");
    check(function<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context), "cuCtxPushCurrent");
  }

  CUdeviceptr allocate(std::size_t bytes) const {
    CUdeviceptr memory = 0;
    check(function<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, bytes), "cuMemAlloc");
    return memory;
  }
  void release(CUdeviceptr memory) const { function<decltype(cuMemFree)>("cuMemFree_v2")(memory); }
  void upload(CUdeviceptr to, std::span<const float> from) const {
    check(function<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2")(to, from.data(), from.size_bytes()), "upload");
  }
  void download(std::span<float> to, CUdeviceptr from) const {
    check(function<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(to.data(), from, to.size_bytes()), "download");
  }

 private:
  template <class Function>
  Function* function(const char* name) const {
    void* found = dlsym(library_, name);
    if (found == nullptr) throw NoGpu(dlerror());
    return reinterpret_cast<Function*>(found);
  }
  static void check(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS)
      throw std::runtime_error(what + (": the driver answers " + std::to_string(result)));
  }

  void* library_ = dlopen("libcuda.so.1", RTLD_NOW);
};

/// Memory of the device for one tensor.
class Tensor {
 public:
  explicit Tensor(const Driver& driver) : driver_(driver), memory_(driver.allocate(tensor_bytes)) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { driver_.release(memory_); }

  void fill(std::span<const float> values) { driver_.upload(memory_, values); }
  std::vector<float> values() const {
    std::vector<float> all(floats);
    driver_.download(all, memory_);
    return all;
  }
  ec::Target chunk() const { return {reinterpret_cast<void*>(memory_), tensor_bytes, ec::Residence::device}; }

 private:
  const Driver& driver_;
  CUdeviceptr memory_;
};

using Tensors = std::vector<std::unique_ptr<Tensor>>;

template <class Chunk>
std::vector<Chunk> chunks(const Tensors& tensors, const std::vector<unsigned>& which) {
  std::vector<Chunk> all;
  for (const unsigned i : which) all.push_back(tensors[i]->chunk());
  return all;
}

void check(const ec::Error& error) {
  if (error) throw std::system_error(error.code(), error.text());
}

std::vector<unsigned> numbers(unsigned from, unsigned to) {
  std::vector<unsigned> all(to - from);
  std::iota(all.begin(), all.end(), from);
  return all;
}

void run() {
  const Driver driver;
  const auto codec = ec::Codec::create(k, m);
  if (!codec) check(codec.error());

  Tensors tensors;
  for (unsigned i = 0; i < k + m; ++i) tensors.push_back(std::make_unique<Tensor>(driver));
  for (unsigned i = 0; i < k; ++i) {
    std::vector<float> values(floats);
    std::iota(values.begin(), values.end(), 1000.0f * static_cast<float>(i));
    tensors[i]->fill(values);
  }
  const std::vector<unsigned> lost{0, 3, 9}, available{1, 2, 4, 5, 6, 7, 8, 10};
  check(codec->encode(chunks<ec::Source>(tensors, numbers(0, k)),
                      chunks<ec::Target>(tensors, numbers(k, k + m))));

  std::vector<std::vector<float>> before;
  for (const unsigned i : lost) {
    before.push_back(tensors[i]->values());
    tensors[i]->fill(std::vector<float>(floats, 0.0f));
  }
  check(codec->decode(available, chunks<ec::Source>(tensors, available), lost,
                      chunks<ec::Target>(tensors, lost)));
  for (std::size_t i = 0; i < lost.size(); ++i)
    if (tensors[lost[i]]->values() != before[i]) throw std::runtime_error("a recovered tensor differs");
  std::cout << "coded " << k << " tensors of " << tensor_bytes << " bytes in device memory, lost "
            << lost.size() << " of " << k + m << ", recovered\n";
}

}  // namespace

int main() try {
  run();
  return 0;
} catch (const NoGpu& e) {
  std::cerr << "code_tensors: no GPU to run on: " << e.what() << '\n';
  return 77;
} catch (const std::exception& e) {
  std::cerr << "code_tensors: " << e.what() << '\n';
  return 1;
}
