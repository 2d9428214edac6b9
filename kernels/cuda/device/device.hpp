// One GPU that is up: context, kernels, streams, pinned memory.
#pragma once

#include <array>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device/driver.hpp"
#include "kernels/cuda/device/link_clock.hpp"
#include "kernels/cuda/device/locked_arena.hpp"
#include "kernels/cuda/generate/generated_codes.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/cuda/options.hpp"

namespace ec::kernels::cuda {

struct DeviceInfo {
  std::string name;
  int ordinal = 0;
  int compute_major = 0;
  int compute_minor = 0;
  unsigned multiprocessors = 0;
  int gpus_of_machine = 0;
  int shared_by_mps = 0;  ///< 1: with other processes, by NVIDIA's Multi-Process Service
};

/// Word sizes of the tile kernels, in bytes: Device::tile_kernel(i) works on words of tile_words[i].
inline constexpr std::array<unsigned, 5> tile_words{1, 2, 4, 8, 16};

/// The kernels generated for one matrix: for one stripe and for many.
struct GeneratedKernel {
  gf::Matrix matrix;
  CUfunction one = nullptr;
  CUfunction many = nullptr;
};

/// As long as it lives, no call of this thread ends the capture of a stream by another thread.
class CapturesSpared {
 public:
  explicit CapturesSpared(const Driver& driver) : driver_(driver) { exchange_mode(); }
  ~CapturesSpared() { exchange_mode(); }
  CapturesSpared(const CapturesSpared&) = delete;
  CapturesSpared& operator=(const CapturesSpared&) = delete;

 private:
  /// The thread's mode becomes mode_, and mode_ the thread's.
  void exchange_mode() { driver_.thread_exchange_capture_mode(&mode_); }

  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Thread safe. Shared by all work in flight; the last work to end destroys the device.
class Device : public std::enable_shared_from_this<Device> {
 public:
  static constexpr unsigned lane_count = 16;

  /// The GPU `ordinal`. Throws std::runtime_error with the reason on failure. Takes a fraction of a second
  /// (it creates a context).
  static std::shared_ptr<Device> bring_up(const Options& options, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Makes the device's context current, and spares captures, for the life of the scope.
  class Scope {
   public:
    explicit Scope(const Device& device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    CUresult result() const { return result_; }

   private:
    const Device& device_;
    const CapturesSpared captures_spared_;
    CUresult result_;
  };

  /// A stream and its memory.
  struct Lane {
    static constexpr std::size_t table_bytes = std::size_t{1} << 20;

    CUstream stream = nullptr;
    CUdeviceptr table = 0;         ///< table_bytes of device memory, for addresses
    std::span<std::uint8_t> slab;  ///< pinned, for staging, whole pages: a part of Options::staging_bytes
  };
  struct GiveBack {
    Device* device;
    void operator()(Lane* lane) const;
  };
  /// A lane for one job. A lane that is released instead of given back is not used again.
  using BorrowedLane = std::unique_ptr<Lane, GiveBack>;
  /// Null if every lane is in use.
  BorrowedLane borrow_lane();

  const Driver& driver() const { return *driver_; }
  const Options& options() const { return options_; }
  const DeviceInfo& info() const { return info_; }
  CUfunction tile_kernel(unsigned i) const { return tile_kernels_[i]; }
  /// kernel: one of bit_kernels.
  CUfunction bit_kernel(const BitKernel& kernel) const { return bit_kernels_[&kernel - bit_kernels]; }
  /// The kernel of table_kernels[i].
  CUfunction table_kernel(unsigned i) const { return table_kernels_[i]; }
  /// Null if the matrix has no generated kernel, or the kernel has no code for this chip.
  const GeneratedKernel* generated_kernel(const gf::Matrix& matrix) const noexcept;
  LinkClock& link_clock() { return link_clock_; }
  /// Bytes of the jobs that chose this device among several (Claim).
  std::atomic<std::size_t>& under_way() { return under_way_; }

  /// Page-locks the arena of libec_cuda_pinned.so, if this process runs with it, and has it opened. Logs one
  /// line about the result. Called once.
  void lock_preload_arena();

  /// The ordinal of the GPU whose memory holds `address`; negative if the driver does not say. In a Scope.
  int holder_of(const void* address) const;
  /// Whether a stream belongs to this device's context.
  bool owns(CUstream stream) const;

  /// A stream of the caller gets kernels: their code stays loaded as long as the context lives. A capture
  /// that holds a kernel of an unloaded module ends the process when it becomes a graph (driver 580).
  void lend_kernels() noexcept { lent_.store(true, std::memory_order_relaxed); }

  /// The device stopped answering: its memory stays, because freeing could wait for the device.
  void abandon();
  bool is_abandoned() const { return abandoned_; }
  /// Undoes abandon() if the driver, which may take its time, says that all work of the device is over; else
  /// throws std::runtime_error with the reason.
  void take_back();

 private:
  Device(const Driver& driver, const Options& options) : driver_(&driver), options_(options) {}
  void open_context(int ordinal);
  void load_kernels();
  void load_generated_kernels();
  CUresult load_module(const void* image, CUmodule* module);
  CUfunction find(CUmodule module, const std::string& name) const;
  void make_lanes();
  void free_lanes();
  void check(const char* call, CUresult result) const;

  const Driver* driver_;
  Options options_;
  DeviceInfo info_;
  CUdevice ordinal_ = 0;
  CUcontext context_ = nullptr;
  std::array<CUfunction, tile_words.size()> tile_kernels_{};
  std::array<CUfunction, std::size(bit_kernels)> bit_kernels_{};
  std::array<CUfunction, std::size(table_kernels)> table_kernels_{};
  std::vector<GeneratedKernel> generated_kernels_;  // for generated_codes(), or none
  std::vector<CUmodule> modules_;
  std::atomic<bool> lent_{false};
  LinkClock link_clock_;
  std::atomic<std::size_t> under_way_{0};
  std::unique_ptr<LockedArena> arena_;
  std::span<std::uint8_t> staging_;  // pinned, of all lanes
  CUdeviceptr tables_ = 0;           // of all lanes
  std::array<Lane, lane_count> lanes_;
  std::mutex lanes_mutex_;
  std::vector<Lane*> free_lanes_;  // has room for all
  std::atomic<bool> abandoned_{false};
};

}  // namespace ec::kernels::cuda
