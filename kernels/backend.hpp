// The seam of this room. All code that codes bytes is a Backend, and a back end does two things:
//   transform   target  = matrix . source
//   accumulate  target ^= matrix . source
// Encode, decode, repair of lost coding chunks, delta update and XOR are all one of the two by some matrix.
// transform_all is transform for many stripes, which a device may take in one go. A device also compares:
// CPUs compare by transform, into blocks that caches hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/program.hpp"
#include "kernels/residence.hpp"

namespace ec::kernels {

/// One application of a program to chunks of equal length. Views only: a job owns nothing.
/// sources.size() == program->sources(), targets.size() == program->targets(); `bytes` is the length of
/// every chunk and may be zero. Chunks may have any alignment; targets overlap neither sources nor each
/// other.
struct Job {
  const Program* program = nullptr;
  std::span<const Source> sources;
  std::span<const Target> targets;
  std::size_t bytes = 0;
};

/// The work of a back end; a device also compares targets with matrix . source.
enum class Verb : unsigned char { transform, accumulate, compare };

/// The answer of compare() where nothing differs.
inline constexpr unsigned long long no_difference = ~0ull;

/// ok: the targets hold the result.
/// unsupported: the back end does not do this job; nothing was touched.
/// busy: the back end does this job, but has no room now; nothing was touched.
/// fault: the job failed. The sources are intact, and nothing will write the targets any more. transform: the
///   targets hold anything. accumulate: if the whole job is host-addressable, its targets are as before the
///   call, so that another back end can take the job over; if any chunk lies on a device, they hold anything.
/// hung: like fault, also where the device is shared with other processes and one of them may have been to
///   blame; but a write to targets that lie in pinned or device memory may still come.
enum class [[nodiscard]] Status : unsigned char{ok, unsupported, busy, fault, hung};

constexpr std::string_view name(Status s) {
  constexpr std::string_view names[] = {"ok", "unsupported", "busy", "fault", "hung"};
  return names[static_cast<std::size_t>(s)];
}

/// A back end's rank, for the choice between back ends; nobody asks for one by its name.
enum class BackendKind : unsigned char {
  device,  ///< takes chunks in device memory; chunks elsewhere by their size and place
  coder,   ///< kernels of ours for the CPU; results are compared, as a device's are
  judge,   ///< code of others, by which results are compared
  floor    ///< the last of a list: plain code that takes every job in host memory; a judge, too
};
constexpr bool is_judge(BackendKind kind) { return kind >= BackendKind::judge; }

/// One per process and kind; every call may come from any thread at any time, and none throws.
class Backend {
 public:
  constexpr Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view name() const noexcept = 0;
  virtual BackendKind kind() const noexcept = 0;
  /// Whether transform and accumulate would take this job. Looks only at shape, length and residence.
  virtual bool supports(const Job& job) const noexcept = 0;
  bool supports_all(std::span<const Job> jobs) const noexcept {
    return std::ranges::all_of(jobs, [&](const Job& job) { return supports(job); });
  }
  /// verb: transform or accumulate.
  virtual Status code(const Job& job, Verb verb) noexcept = 0;
  Status transform(const Job& job) noexcept { return code(job, Verb::transform); }
  Status accumulate(const Job& job) noexcept { return code(job, Verb::accumulate); }
  /// transform of each job, if all are supported; jobs of one program and length may share a start.
  /// After busy, fault or hung some jobs may be done, and the targets of all hold anything; hung: as above.
  virtual Status transform_all(std::span<const Job> jobs) noexcept {
    if (!supports_all(jobs)) return Status::unsupported;
    for (const Job& job : jobs)
      if (const Status status = transform(job); status != Status::ok) return status;
    return Status::ok;
  }
  /// The verb for each job, but enqueues the work on `stream`, a stream of the device (a CUstream; a default
  /// one belongs to the device that holds the memory, or else to the first device), and returns: the result
  /// is there when the stream has come that far, and so are errors. No chunk may be pageable; chunks must
  /// live until then, programs need not. The stream may be captured into a graph. Only a device can: other
  /// back ends answer unsupported. fault: some of the work may be enqueued.
  virtual Status enqueue(std::span<const Job>, Verb, void* /*stream*/) noexcept {
    return Status::unsupported;
  }
  /// Where targets differ from matrix . source; writes no chunk. The jobs, at least one, have one program and
  /// one length, which is not 0. *difference becomes no_difference, or the least i * bytes + byte at which
  /// some target of jobs[i] differs. stream: as for enqueue(); then *difference is a word aligned to 8 bytes
  /// that the device can write. Without a stream the call waits, and *difference is ordinary memory. Only a
  /// device can: other back ends answer unsupported.
  virtual Status compare(std::span<const Job>, unsigned long long* /*difference*/,
                         const std::optional<void*>& /*stream*/) noexcept {
    return Status::unsupported;
  }

 protected:
  /// Trivial, so that static back ends serve threads and objects of the host while static objects go.
  ~Backend() = default;
};

bool all_chunks(const Job& job, auto&& hold) {
  return std::ranges::all_of(job.sources, hold) && std::ranges::all_of(job.targets, hold);
}

/// Whether every chunk of the job can be touched by the host.
inline bool host_addressable(const Job& job) noexcept {
  return all_chunks(job, [](const auto& chunk) { return chunk.residence != Residence::device; });
}

}  // namespace ec::kernels
