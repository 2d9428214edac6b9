// Compares results of back ends with ISA-L's, for a sample of the calls or for all, before the host sees
// them. A back end that was wrong once is not asked again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gf/generator.hpp"
#include "kernels/backend.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::codec {

/// One call of a back end. More than one job: transform_all.
struct BackendCall {
  kernels::Verb verb = kernels::Verb::transform;
  std::span<const kernels::Job> jobs;
};

/// Bytes of a block's targets all together, at most.
inline constexpr std::size_t block_target_bytes = std::size_t{32} << 10;

/// The longest block of so many targets, a multiple of 64: 4 KiB for up to 8 targets. Such a block is a whole
/// chunk of a pool with Ceph's stripe_unit of 4 KiB, several steps of every kernel with their ends, and so
/// little that ISA-L makes it again in a microsecond or a few.
constexpr std::size_t longest_block(std::size_t targets) {
  constexpr std::size_t longest = 4096;
  return targets * longest <= block_target_bytes ? longest : block_target_bytes / targets / 64 * 64;
}

/// Thread safe. One in a process watches its back ends; tests have their own.
///
/// All back ends but judges are watched. The first judge judges, or another one if the first does not take
/// the job. Where the two results differ, the floor of the list decides which is wrong: the judge can be. The
/// wrong back end is off for as long as the process lives, the device too: a device reports a fault itself,
/// but after a wrong byte no report of its own is to be believed. A device that is off is absent to the
/// router.
class Validator {
 public:
  /// One line for the operator; from any thread, once for each back end that is found wrong.
  using Log = void (*)(const char* line);

  /// Watches nothing.
  Validator() = default;
  /// log: null for silence. directory: where the bytes of a mismatch are kept, if it exists. counts: the
  /// place of the counts, if not in the validator; must outlive it.
  explicit Validator(const Validation& how, Log log = nullptr, std::string directory = {},
                     std::array<CheckCounts, max_backends>* counts = nullptr);

  /// Whether calls of such a back end are compared.
  bool watches(kernels::BackendKind kind) const noexcept { return how_.every != 0 && !is_judge(kind); }

  /// Whether this call of a back end that is watched is to go through run().
  bool is_due(ThisThread& thread) const noexcept { return thread.is_due(how_.every); }

  /// Back ends that were found wrong: bit i stands for backends[i].
  unsigned off() const noexcept { return off_.load(std::memory_order_relaxed); }
  /// Whether the device of kernels::backends() was found wrong.
  bool is_device_off() const noexcept;

  /// status: the back end's status; or fault where it was wrong: targets in host memory are as the contract
  /// of kernels::Status has it, and targets of an accumulate are as before the call wherever they lie. busy
  /// too where there is no memory for the comparison: nothing was touched. doubted: the bytes were wrong, or
  /// could not be compared, and only a judge may make them.
  struct Answer {
    kernels::Status status = kernels::Status::ok;
    bool doubted = false;
  };
  /// Has backends[coder] do the call and compares: of one job, drawn at random, one block, or everything.
  /// backends end in the floor. A device that fails while its memory is fetched is answered as if the call
  /// had failed.
  Answer run(std::span<kernels::Backend* const> backends, std::size_t coder,
             const BackendCall& call) noexcept;

  /// By index in the list given to run().
  const std::array<CheckCounts, max_backends>& counts() const noexcept { return counts_; }

 private:
  enum class Finding : unsigned char { right, wrong, unknown, device_failed };
  /// The bytes [offset, offset + bytes) of every chunk.
  struct Block {
    std::size_t offset, bytes;
  };
  class BlockViews;
  /// One comparison. before: all bytes of the targets before an accumulate, one target after the other; else
  /// null. memory: for the block's copies.
  struct Comparison {
    std::span<kernels::Backend* const> backends;
    std::size_t coder;
    std::size_t stripes;
    const kernels::Job& job;
    const std::uint8_t* before;
    std::uint8_t* memory;
  };

  Finding check(const Comparison& of) noexcept;
  Finding check_block(const Comparison& of, Block block) noexcept;
  void found_wrong(const Comparison& of, std::size_t backend, std::size_t judge, const BlockViews& views,
                   const std::uint8_t* got, const std::uint8_t* expected) noexcept;

  const Validation how_{.every = 0, .whole = false};
  const Log log_ = nullptr;
  const std::string directory_;
  alignas(64) std::atomic<unsigned> off_{0};  // read by every call; written when something is wrong
  alignas(64) std::array<CheckCounts, max_backends> own_{};
  std::array<CheckCounts, max_backends>& counts_ = own_;
};

/// Has the back end do the call.
inline kernels::Status perform(kernels::Backend& backend, const BackendCall& call) noexcept {
  return call.jobs.size() != 1 ? backend.transform_all(call.jobs)
                               : backend.code(call.jobs.front(), call.verb);
}

/// Watches nothing.
Validator& no_validation() noexcept;

/// The validator of this process, as node_settings() say; `log` is the first caller's. Throws as
/// node_settings() throws.
Validator& validator(Validator::Log log);

}  // namespace ec::codec
