// A back end under a test's control: it answers what it is told to, or lies.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/backend.hpp"
#include "kernels/backends.hpp"
#include "kernels/transfer.hpp"

namespace ec::test {

/// Flips bits of one byte of a target, wherever it lies.
inline void flip(const kernels::Job& job, std::size_t target, std::size_t at, std::uint8_t bits = 1) {
  std::uint8_t byte = 0;
  const kernels::Transfer transfer{job.targets[target].data + at, job.targets[target].residence, &byte, 1};
  if (kernels::fetch(transfer) != kernels::Status::ok) return;
  byte ^= bits;
  static_cast<void>(kernels::store(transfer));
}

class FakeBackend final : public kernels::Backend {
 public:
  using Status = kernels::Status;
  using Jobs = std::span<const kernels::Job>;
  using Spoil = std::function<void(Jobs)>;

  /// Answers `answer`, and does the job when that is ok, whatever its residences. Before a fault it scrambles
  /// the targets of a transform, as the contract allows.
  FakeBackend(std::string_view name, kernels::BackendKind kind, Status answer)
      : name_(name), kind_(kind), answer_(answer) {}
  /// Has `real` do the job, and spoils the result where that went well.
  FakeBackend(std::string_view name, kernels::BackendKind kind, kernels::Backend& real, Spoil spoil)
      : name_(name), kind_(kind), real_(&real), spoil_(std::move(spoil)) {}

  std::string_view name() const noexcept override { return name_; }
  kernels::BackendKind kind() const noexcept override { return kind_; }
  bool supports(const kernels::Job& job) const noexcept override {
    return real_ != nullptr ? real_->supports(job) : answer_ != Status::unsupported;
  }
  Status code(const kernels::Job& job, kernels::Verb verb) noexcept override {
    return run({&job, 1}, verb == kernels::Verb::transform, [&](auto& by) { return by.code(job, verb); });
  }
  Status transform_all(Jobs jobs) noexcept override {
    return run(jobs, true, [&](auto& by) { return by.transform_all(jobs); });
  }
  Status enqueue(Jobs jobs, kernels::Verb verb, void* stream) noexcept override {
    return real().enqueue(jobs, verb, stream);
  }
  Status compare(Jobs jobs, unsigned long long* difference,
                 const std::optional<void*>& stream) noexcept override {
    return run(jobs, false, [&](auto& by) { return by.compare(jobs, difference, stream); });
  }
  unsigned calls() const { return calls_; }
  void answer(Status status) { answer_ = status; }

  /// Called before each job.
  std::function<void()> meanwhile;

 private:
  kernels::Backend& real() const { return real_ != nullptr ? *real_ : kernels::reference_backend(); }

  template <class Work>
  Status run(Jobs jobs, bool may_scramble, Work&& work) {
    ++calls_;
    if (meanwhile) meanwhile();
    const Status status = answer_ == Status::ok ? work(real()) : answer_;
    if (status == Status::ok && spoil_) spoil_(jobs);
    if (may_scramble && (answer_ == Status::fault || answer_ == Status::hung))
      for (const auto& job : jobs)
        for (const auto& target : job.targets) std::fill_n(target.data, job.bytes, std::uint8_t{0xee});
    return status;
  }

  std::string_view name_;
  kernels::BackendKind kind_;
  Status answer_ = Status::ok;
  kernels::Backend* real_ = nullptr;
  Spoil spoil_;
  std::atomic<unsigned> calls_{0};
};

}  // namespace ec::test
