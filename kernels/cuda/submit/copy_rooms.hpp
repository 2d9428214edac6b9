// Device memory that long jobs over the link pass through, a slice at a time.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/device/driver.hpp"

namespace ec::kernels::cuda {

/// Room for the slices of one job: while one is coded, the next arrives and the one before leaves.
struct CopyRoom {
  struct Slot {
    CUdeviceptr memory = 0;     ///< of all chunks of a slice
    CUevent arrived = nullptr;  ///< its sources are there
    CUevent left = nullptr;     ///< its targets are back in host memory
  };
  std::array<Slot, 3> slots;
};

/// Thread safe. All calls, and the destructor, need the device's context current; a loan's end does not. Must
/// outlive its loans.
class CopyRooms {
 public:
  /// Of eight threads with 10+4 and chunks of 16 MiB, the
  /// others in place: one room 49.7 GB/s, two 50.1, four 49.2 to 49.9, eight 48.8 (H200).
  static constexpr unsigned most_rooms = 2;

  /// A room has three slots of slot_bytes of device memory, allocated when first needed.
  CopyRooms(const Driver& driver, std::size_t slot_bytes) : driver_(driver), slot_bytes_(slot_bytes) {}
  CopyRooms(const CopyRooms&) = delete;
  CopyRooms& operator=(const CopyRooms&) = delete;
  ~CopyRooms();

  class Loan {
   public:
    Loan(Loan&& o) noexcept : rooms_(std::exchange(o.rooms_, nullptr)), room_(o.room_) {}
    ~Loan();
    const CopyRoom& operator*() const { return room_; }
    const CopyRoom* operator->() const { return &room_; }
    /// The device may still use it: nobody else ever does.
    void abandon() { rooms_ = nullptr; }

   private:
    friend class CopyRooms;
    Loan(CopyRooms* rooms, const CopyRoom& room) : rooms_(rooms), room_(room) {}
    CopyRooms* rooms_;
    CopyRoom room_;
  };
  /// Nothing if all are lent or the device has no memory for one more.
  std::optional<Loan> borrow();

 private:
  bool make(CopyRoom& room);
  void release(const CopyRoom& room);

  const Driver& driver_;
  const std::size_t slot_bytes_;
  std::mutex mutex_;
  unsigned made_ = 0;
  std::vector<CopyRoom> free_;
};

}  // namespace ec::kernels::cuda
