// One GPU that is up: context, kernels, streams, pinned memory.
#pragma once

#include <array>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/driver.hpp"
#include "kernels/cuda/device/link_clock.hpp"
#include "kernels/cuda/device/locked_arena.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/table_args.hpp"
#include "kernels/cuda/options.hpp"

namespace ec::kernels::cuda {

struct DeviceInfo {
  std::string name;
  int ordinal = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int driver_version = 0;  ///< as the driver counts: 13000 is CUDA 13.0
  int numa_node = -1;      ///< of the host, that is nearest; -1: not known
  int gpus_of_machine = 0;
};

/// Word sizes of the tile kernels, in bytes: Device::tile_kernel(i) works on words of tile_words[i].
inline constexpr std::array<unsigned, 5> tile_words{1, 2, 4, 8, 16};

/// Thread safe. Shared by whoever has work in flight; the last one out tears it down.
class Device {
 public:
  static constexpr unsigned lane_count = 16;

  /// The GPU `ordinal`. Null on failure, with the reason in *why. Takes a fraction of a second (it creates a
  /// context).
  static std::shared_ptr<Device> bring_up(const Options& options, int ordinal, std::string* why);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Makes the device's context current for the life of the scope.
  class Scope {
   public:
    explicit Scope(const Device& device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    CUresult result() const { return result_; }

   private:
    const Device& device_;
    CUresult result_;
  };

  /// A stream borrowed for a job, and memory that goes with it. If it is abandoned, none of it is ever used
  /// or freed again.
  class Lane {
   public:
    static constexpr std::size_t table_bytes = std::size_t{1} << 20;

    Lane(Lane&& o) noexcept : device_(o.device_), kept_(std::exchange(o.kept_, {})) {}
    Lane& operator=(Lane&& o) noexcept {
      std::swap(device_, o.device_);
      std::swap(kept_, o.kept_);
      return *this;
    }
    ~Lane();
    CUstream stream() const { return kept_.stream; }
    /// table_bytes of device memory, for addresses.
    CUdeviceptr table() const { return kept_.table; }
    /// Pinned memory for staging, in whole pages: its part of Options::staging_bytes.
    std::span<std::uint8_t> slab() const { return kept_.slab; }
    void abandon() { kept_ = {}; }

   private:
    friend class Device;
    /// What a lane is made of, kept from job to job.
    struct Kept {
      CUstream stream = nullptr;
      CUdeviceptr table = 0;
      std::span<std::uint8_t> slab;
    };
    Lane(Device* device, const Kept& kept) : device_(device), kept_(kept) {}

    Device* device_;
    Kept kept_;
  };
  /// Nothing if every lane is in use.
  std::optional<Lane> borrow_lane();

  const Driver& driver() const { return *driver_; }
  const Options& options() const { return options_; }
  const DeviceInfo& info() const { return info_; }
  /// As in sm_<chip>.
  unsigned chip() const { return static_cast<unsigned>(10 * info_.compute_major + info_.compute_minor); }
  CUfunction tile_kernel(unsigned i) const { return tile_kernels_[i]; }
  /// For bit_shapes[i].
  CUfunction bit_kernel(unsigned i, bool half) const { return bit_kernels_[i][half ? 1 : 0]; }
  /// For table_kernels[i].
  CUfunction table_kernel(unsigned i) const { return table_kernels_[i]; }
  LinkClock& link_clock() { return link_clock_; }
  const LinkClock& link_clock() const { return link_clock_; }

  /// Loads a module (a fat binary or machine code, which is copied) and finds a kernel in it. It is unloaded
  /// by unload() or with the device. May wait for what the device is at. Throws std::bad_alloc.
  CUresult load(const void* image, const char* name, CUmodule* module, CUfunction* function);
  void unload(CUmodule module);

  /// Page-locks the arena of libec_cuda_pinned.so, if this process runs with it, and has it opened. One line
  /// about what became of it; empty where there is no such arena. Called once.
  std::string lock_preload_arena();

  /// Whether a stream is of this device's context.
  bool owns(CUstream stream) const;

  /// The device stopped answering: nothing of it is ever freed, because freeing could wait for it.
  void abandon();

 private:
  Device(const Driver* driver, const Options& options) : driver_(driver), options_(options) {}
  std::string open_context(int ordinal);
  std::string load_kernels();
  CUresult load_module(const void* image, CUmodule* module);
  std::string load_function(CUmodule module, const std::string& name, CUfunction* function) const;
  std::string make_lanes();
  void free_lanes();
  std::string failed(const char* what, CUresult result) const;

  const Driver* driver_;
  Options options_;
  DeviceInfo info_;
  CUdevice ordinal_ = 0;
  CUcontext context_ = nullptr;
  std::array<CUfunction, tile_words.size()> tile_kernels_{};
  std::array<std::array<CUfunction, 2>, std::size(bit_shapes)> bit_kernels_{};
  std::array<CUfunction, std::size(table_kernels)> table_kernels_{};
  std::mutex modules_mutex_;
  std::vector<CUmodule> modules_;
  LinkClock link_clock_;
  std::unique_ptr<LockedArena> arena_;
  std::span<std::uint8_t> staging_;  // pinned, of all lanes
  CUdeviceptr tables_ = 0;           // of all lanes
  std::mutex lanes_mutex_;
  std::vector<Lane::Kept> free_lanes_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace ec::kernels::cuda
