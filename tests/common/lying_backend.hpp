// A back end that says ok and is wrong.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/backend.hpp"
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

/// Has `honest` do a call, under a name of its own, and spoils the result of those that went well.
class LyingBackend final : public kernels::Backend {
 public:
  using Spoil = std::function<void(std::span<const kernels::Job>)>;

  LyingBackend(std::string_view name, kernels::BackendKind kind, kernels::Backend& honest, Spoil spoil)
      : name_(name), kind_(kind), honest_(honest), spoil_(std::move(spoil)) {}

  std::string_view name() const noexcept override { return name_; }
  kernels::BackendKind kind() const noexcept override { return kind_; }
  bool supports(const kernels::Job& job) const noexcept override { return honest_.supports(job); }
  kernels::Status transform(const kernels::Job& job) noexcept override {
    return spoiled(honest_.transform(job), {&job, 1});
  }
  kernels::Status accumulate(const kernels::Job& job) noexcept override {
    return spoiled(honest_.accumulate(job), {&job, 1});
  }
  kernels::Status transform_all(std::span<const kernels::Job> jobs) noexcept override {
    return spoiled(honest_.transform_all(jobs), jobs);
  }
  kernels::Status enqueue(std::span<const kernels::Job> jobs, kernels::Verb verb,
                          void* stream) noexcept override {
    return honest_.enqueue(jobs, verb, stream);
  }
  /// Calls that went well.
  unsigned calls() const { return calls_; }

 private:
  kernels::Status spoiled(kernels::Status status, std::span<const kernels::Job> jobs) {
    if (status != kernels::Status::ok) return status;
    ++calls_;
    spoil_(jobs);
    return status;
  }

  std::string_view name_;
  kernels::BackendKind kind_;
  kernels::Backend& honest_;
  Spoil spoil_;
  std::atomic<unsigned> calls_{0};
};

}  // namespace ec::test
