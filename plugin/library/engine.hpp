// What both public doors (C++ and C) share: every check of what a caller passed, and what becomes of the
// stripes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "ec/codec.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::library {

/// Whether a call waits for its result or only enqueues its work on `stream` (null is a stream too).
struct Completion {
  bool waits = true;
  void* stream = nullptr;
};

/// One codec behind a public door. All calls are thread safe, and none throws.
/// Chunks come stripe after stripe, all of `bytes` bytes. Everything is checked before the first byte is
/// written; the texts of errors name chunks by their place in the arrays: data[3].
class Engine {
 public:
  /// technique: a value of ec::Technique, or not. The engine, or invalid_argument or out_of_memory. Reads the
  /// node's settings; touches no device.
  static Result<std::shared_ptr<const Engine>> create(unsigned k, unsigned m, int technique) noexcept;

  unsigned k() const noexcept { return codec_.k(); }
  unsigned m() const noexcept { return codec_.m(); }
  gf::Technique technique() const noexcept { return technique_; }

  Error encode(std::span<const kernels::Source> data, std::span<const kernels::Target> coding,
               std::size_t bytes, Completion completion = {}) const noexcept;
  Error decode(std::span<const unsigned> available, std::span<const kernels::Source> sources,
               std::span<const unsigned> wanted, std::span<const kernels::Target> targets, std::size_t bytes,
               Completion completion = {}) const noexcept;
  Error update(unsigned chunk, std::span<const kernels::Source> delta,
               std::span<const kernels::Target> coding, std::size_t bytes) const noexcept;

  Engine(gf::Technique technique, unsigned k, unsigned m, codec::Router router)
      : technique_(technique), codec_(technique, k, m, router) {}

 private:
  /// Work on a stream may use what was compiled for a plan when the call is long over. So plans are kept as
  /// long as the engine, the first `most_kept` of them; false for one more.
  bool keep(const std::shared_ptr<const codec::Plan>& plan) const;
  static constexpr std::size_t most_kept = 256;

  gf::Technique technique_;
  codec::Codec codec_;
  mutable std::mutex kept_mutex_;
  mutable std::set<std::shared_ptr<const codec::Plan>> kept_;
};

}  // namespace ec::library
