#include "kernels/cuda/submit/copy_rooms.hpp"

#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {

CopyRooms::~CopyRooms() {
  for (const CopyRoom& room : free_) release(room);
}

CopyRooms::Loan::~Loan() {
  if (rooms_ == nullptr) return;
  std::lock_guard lock(rooms_->mutex_);
  rooms_->free_.push_back(room_);
}

std::optional<CopyRooms::Loan> CopyRooms::borrow() {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const CopyRoom room = free_.back();
      free_.pop_back();
      return Loan(this, room);
    }
    if (made_ == most_rooms) return std::nullopt;
    ++made_;
    free_.reserve(most_rooms);  // so that the end of a loan allocates nothing
  }
  CopyRoom room;
  if (make(room)) return Loan(this, room);
  release(room);
  std::lock_guard lock(mutex_);
  --made_;
  return std::nullopt;
}

bool CopyRooms::make(CopyRoom& room) {
  for (CopyRoom::Slot& slot : room.slots) {
    if (driver_.mem_alloc(&slot.memory, slot_bytes_) != CUDA_SUCCESS) {
      slot.memory = 0;
      return false;
    }
    add(device_tallies().device_bytes, slot_bytes_);
    for (CUevent* event : {&slot.arrived, &slot.left})
      if (driver_.event_create(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        *event = nullptr;
        return false;
      }
  }
  return true;
}

void CopyRooms::release(const CopyRoom& room) {
  for (const CopyRoom::Slot& slot : room.slots) {
    for (CUevent event : {slot.arrived, slot.left})
      if (event != nullptr) driver_.event_destroy(event);
    if (slot.memory == 0) continue;
    driver_.mem_free(slot.memory);
    add(device_tallies().device_bytes, -std::uint64_t{slot_bytes_});
  }
}

}  // namespace ec::kernels::cuda
