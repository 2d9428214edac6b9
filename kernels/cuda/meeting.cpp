#include "kernels/cuda/meeting.hpp"

#include <chrono>
#include <exception>

#include "kernels/cuda/relax.hpp"

namespace ec::kernels::cuda {
namespace {

/// A launch takes a few microseconds, and a party of short jobs some tens.
constexpr std::chrono::microseconds stared_at{60};

}  // namespace

/// A call in attend(), on its stack.
struct Meeting::Guest {
  enum class Part : unsigned char { waits, leads, is_done };

  const Job& job;
  Guest* next = nullptr;  ///< of those that wait, later of its party
  Outcome outcome{};
  std::atomic<Part> part{Part::waits};

  bool goes_with(const Guest& other) const {
    return job.program == other.job.program && job.bytes == other.job.bytes;
  }
  /// Its thread may be gone with it as soon as this is stored.
  void becomes(Part now) {
    part.store(now, std::memory_order_release);
    part.notify_one();
  }
};

Outcome Meeting::attend(const Job& job, const Coder& code) {
  Guest self{job};
  bool handed_over = false;
  // Made before anyone may wait for it.
  const std::function<void()> launched = [&] {
    if (!handed_over) hand_over();
    handed_over = true;
  };
  if (!starts(self)) {
    wait_for_turn(self);
    if (self.part.load(std::memory_order_acquire) == Guest::Part::is_done) return std::move(self.outcome);
  }
  Outcome outcome = lead(self, code, launched);
  launched();
  dismiss(&self, self, outcome);
  return outcome;
}

/// Whether the guest launches now; else it waits with the others.
bool Meeting::starts(Guest& guest) {
  std::lock_guard lock(mutex_);
  if (!launching_) return launching_ = true;
  Guest** end = &waiting_;
  while (*end != nullptr) end = &(*end)->next;
  *end = &guest;
  return false;
}

std::size_t Meeting::waiting() {
  std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const Guest* g = waiting_; g != nullptr; g = g->next) ++count;
  return count;
}

void Meeting::wait_for_turn(Guest& guest) {
  const auto until = std::chrono::steady_clock::now() + stared_at;
  while (guest.part.load(std::memory_order_acquire) == Guest::Part::waits) {
    if (std::chrono::steady_clock::now() < until)
      relax();
    else
      guest.part.wait(Guest::Part::waits, std::memory_order_acquire);
  }
}

Outcome Meeting::lead(Guest& first, const Coder& code, const std::function<void()>& launched) try {
  std::array<Job, most> jobs;
  std::size_t count = 0;
  for (const Guest* g = &first; g != nullptr; g = g->next) jobs[count++] = g->job;
  return code(std::span(jobs).first(count), launched);
} catch (const std::exception&) {
  return {Status::busy, {}, false};
}

void Meeting::dismiss(Guest* party, const Guest& leader, const Outcome& outcome) {
  while (party != nullptr) {
    Guest* const guest = party;
    party = guest->next;
    if (guest == &leader) continue;
    try {
      guest->outcome = outcome;
    } catch (const std::exception&) {
      guest->outcome.status = outcome.status;
    }
    guest->becomes(Guest::Part::is_done);
  }
}

/// The oldest of those that wait launches next, for itself and all that go with it.
void Meeting::hand_over() {
  Guest* leader = nullptr;
  {
    std::lock_guard lock(mutex_);
    leader = waiting_;
    launching_ = leader != nullptr;
    if (leader == nullptr) return;
    waiting_ = leader->next;
    Guest** last = &leader->next;
    std::size_t count = 1;
    for (Guest** at = &waiting_; *at != nullptr && count < most;) {
      Guest* const guest = *at;
      if (!guest->goes_with(*leader)) {
        at = &guest->next;
        continue;
      }
      *at = guest->next;
      *last = guest;
      last = &guest->next;
      ++count;
    }
    *last = nullptr;
  }
  leader->becomes(Guest::Part::leads);
}

}  // namespace ec::kernels::cuda
