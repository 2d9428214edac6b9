// A back end under the test's control, to see what the Router does with every answer, and the least job.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"

namespace ec::test {

/// Answers `answer`; when that is ok it has really done the job. A spoiling one scrambles the targets of a
/// transform before it reports a fault, as the contract allows.
class FakeBackend final : public kernels::Backend {
 public:
  FakeBackend(std::string_view name, kernels::BackendKind kind, kernels::Status answer)
      : name_(name), kind_(kind), answer_(answer) {}

  std::string_view name() const noexcept override { return name_; }
  kernels::BackendKind kind() const noexcept override { return kind_; }
  bool supports(const kernels::Job&) const noexcept override {
    return answer_ != kernels::Status::unsupported;
  }
  kernels::Status transform(const kernels::Job& job) noexcept override {
    ++calls_;
    if (meanwhile) meanwhile();
    if (answer_ == kernels::Status::ok) return kernels::reference_backend().transform(job);
    if (answer_ == kernels::Status::fault || answer_ == kernels::Status::hung)
      for (const auto& target : job.targets)
        for (std::size_t i = 0; i < job.bytes; ++i) target.data[i] = 0xee;
    return answer_;
  }
  kernels::Status accumulate(const kernels::Job& job) noexcept override {
    ++calls_;
    if (meanwhile) meanwhile();
    return answer_ == kernels::Status::ok ? kernels::reference_backend().accumulate(job) : answer_;
  }
  unsigned calls() const { return calls_; }
  void answer(kernels::Status status) { answer_ = status; }

  /// Called while it has a job.
  std::function<void()> meanwhile;

 private:
  std::string_view name_;
  kernels::BackendKind kind_;
  kernels::Status answer_;
  std::atomic<unsigned> calls_{0};
};

/// A job of one byte there and one back, as if in pinned memory.
struct OneByte {
  std::uint8_t in = 1, out = 0;
  kernels::Program program{gf::Matrix(1, 1)};
  kernels::Source source{&in, kernels::Residence::pinned};
  kernels::Target target{&out, kernels::Residence::pinned};
  kernels::Job job{&program, {&source, 1}, {&target, 1}, 1};
};

}  // namespace ec::test
