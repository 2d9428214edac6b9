// One job: in place, or with a part of its chunks in the slab of a lane. The self-test that a device must
// pass before it gets work.
#include "kernels/cuda/submit/device_job.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "gf/gf256.hpp"
#include "kernels/cuda/device/devices.hpp"

namespace ec::kernels::cuda {
namespace {

/// The alignment of the chunks in a slab.
constexpr std::size_t chunk_alignment = 256;
/// A slice is whole pages where it can be, so that only the last slice leaves a rest to the tile kernels.
constexpr std::size_t page_bytes = 4096;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The same part of every chunk.
struct Slice {
  std::size_t offset;
  std::size_t bytes;
  bool second;  ///< its staged chunks lie in the second half of their region, not at its start
};

/// The chunks of a job as the device sees them: in place, or in a slab. A view; the job must outlive it.
/// Pageable chunks are staged a slice at a time. Targets of accumulate that must stay unchanged until the end
/// are staged as a whole, in front of that region.
class StagedChunks {
 public:
  StagedChunks(const Job& job, Verb verb, std::span<std::uint8_t> slab)
      : job_(job),
        verb_(verb),
        keeps_targets_(verb == Verb::accumulate && host_addressable(job)),
        slab_(slab),
        kept_bytes_(keeps_targets_ ? job.targets.size() * kept_stride() : 0),
        addresses_(job) {}

  bool keeps_targets() const { return keeps_targets_; }
  /// Whether the device writes some target in place.
  bool writes_in_place() const {
    return !keeps_targets_ && verb_ != Verb::compare &&
           std::ranges::any_of(job_.targets, [this](const Target& t) { return !is_staged(t); });
  }

  /// Bytes of every chunk in a slice: all of them if they fit the region, else equal slices that fit half of
  /// it; 0 if the job cannot be staged.
  std::size_t slice_bytes() const {
    if (kept_bytes_ > slab_.size()) return 0;
    const auto staged = [this](const auto& chunk) { return is_staged(chunk); };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(job_.sources, staged) +
                                                std::ranges::count_if(job_.targets, staged));
    const std::size_t region = slab_.size() - kept_bytes_;
    if (count == 0 || round_up(job_.bytes, chunk_alignment) <= region / count) return job_.bytes;
    const std::size_t most = region / 2 / count;
    const std::size_t unit = most < page_bytes ? chunk_alignment : page_bytes;
    if (most < unit) return 0;
    const std::size_t slices = (job_.bytes - 1) / (most / unit * unit) + 1;
    return round_up((job_.bytes - 1) / slices + 1, unit);
  }

  /// Copy a slice's bytes that the device reads, or has written, between chunks and slab. Either leaves
  /// the addresses of the slice in sources() and targets().
  void copy_in(const Slice& slice) noexcept {
    look_at(slice);
    for (std::size_t i = 0; i < sources().size(); ++i)
      if (const auto* from = job_.sources[i].data + slice.offset; from != sources()[i])
        std::memcpy(const_cast<std::uint8_t*>(sources()[i]), from, slice.bytes);
    for (std::size_t i = 0; verb_ != Verb::transform && i < targets().size(); ++i)
      if (const auto* from = job_.targets[i].data + slice.offset; from != targets()[i])
        std::memcpy(targets()[i], from, slice.bytes);
  }
  void copy_out(const Slice& slice) noexcept {
    if (verb_ == Verb::compare) return;
    look_at(slice);
    for (std::size_t i = 0; i < targets().size(); ++i)
      if (auto* to = job_.targets[i].data + slice.offset; to != targets()[i])
        std::memcpy(to, targets()[i], slice.bytes);
  }
  std::span<const std::uint8_t*> sources() noexcept { return addresses_.sources(); }
  std::span<std::uint8_t*> targets() noexcept { return addresses_.targets(); }

 private:
  std::size_t kept_stride() const { return round_up(job_.bytes, chunk_alignment); }
  /// Whether the source is staged, a slice at a time.
  bool is_staged(const Source& s) const { return s.residence == Residence::pageable; }
  bool is_staged(const Target& t) const { return !keeps_targets_ && t.residence == Residence::pageable; }

  void look_at(const Slice& slice) noexcept {
    const std::size_t half = (slab_.size() - kept_bytes_) / 2 / chunk_alignment * chunk_alignment;
    std::uint8_t* next = slab_.data() + kept_bytes_ + (slice.second ? half : 0);
    const auto place = [&](const auto& chunk) {
      auto* at = chunk.data + slice.offset;
      if (is_staged(chunk)) {
        at = next;
        next += round_up(slice.bytes, chunk_alignment);
      }
      return at;
    };
    std::ranges::transform(job_.sources, sources().begin(), place);
    std::ranges::transform(job_.targets, targets().begin(), place);
    for (std::size_t i = 0; keeps_targets_ && i < targets().size(); ++i)
      targets()[i] = slab_.data() + i * kept_stride() + slice.offset;
  }

  const Job& job_;
  const Verb verb_;
  const bool keeps_targets_;
  const std::span<std::uint8_t> slab_;
  const std::size_t kept_bytes_;
  Addresses addresses_;
};

}  // namespace

Outcome run_job(Device& device, const Job& job, Verb verb, KernelKind kind, unsigned long long* difference,
                std::uint64_t first_byte) noexcept {
  Runner runner(device);
  if (!runner.ok()) return runner.outcome();
  const bool compares = verb == Verb::compare;
  const auto slab = runner.lane().slab;
  StagedChunks chunks(job, verb, compares ? slab.first(slab.size() - chunk_alignment) : slab);
  const std::size_t most = chunks.slice_bytes();
  if (most == 0) return {Status::busy};

  const auto submission = [&](const Slice& slice) -> Submission {
    return {.link_bytes = slice.bytes * link_chunks(job),
            .moved_bytes = slice.bytes * (job.sources.size() + job.targets.size()),
            .writes_in_place = chunks.writes_in_place()};
  };
  const auto enqueue = [&](const Slice& slice) {
    return [&, slice](CUstream stream) {
      return noting_difference(device, runner.lane(), verb, [&](unsigned long long* word) {
        const ChunkViews views{.sources = chunks.sources(),
                               .targets = chunks.targets(),
                               .bytes = slice.bytes,
                               .link_jobs = on_device(job) ? 0 : device.link_clock().jobs(),
                               .difference = word,
                               .first_byte = first_byte + slice.offset};
        const Work work{device, job.program->matrix(), views, verb, stream};
        return outcome_of("cuLaunchKernel", launch_stripe(work, kind));
      });
    };
  };
  const auto take_difference = [&] {
    if (compares) *difference = std::min(*difference, difference_on(runner.lane()));
  };

  Slice slice{0, std::min(most, job.bytes), false};
  chunks.copy_in(slice);
  if (slice.bytes == job.bytes) {
    if (!runner.run(submission(slice), enqueue(slice))) return runner.outcome();
    chunks.copy_out(slice);
    take_difference();
    return runner.outcome();
  }
  // While the device works on one slice, the slice before is copied out and the next one in.
  runner.launch(submission(slice), enqueue(slice));
  while (slice.bytes != 0) {
    const std::size_t offset = slice.offset + slice.bytes;
    const Slice next{offset, std::min(most, job.bytes - offset), !slice.second};
    chunks.copy_in(next);
    if (!runner.wait()) return runner.outcome();
    take_difference();
    if (next.bytes != 0) runner.launch(submission(next), enqueue(next));
    if (!chunks.keeps_targets()) chunks.copy_out(slice);
    slice = next;
  }
  if (chunks.keeps_targets()) chunks.copy_out({0, job.bytes, false});
  return runner.outcome();
}

Status settle(Device& device, const Outcome& outcome) noexcept {
  if (outcome.status == Status::fault || outcome.status == Status::hung)
    Devices::instance().latch(device, outcome.reason(device.driver()));
  return outcome.status;
}

void self_test(Device& device) {
  constexpr std::uint8_t coefficient = 0xa7;
  gf::Matrix matrix(1, 1);
  matrix(0, 0) = coefficient;
  const Program program(matrix);
  std::array<std::uint8_t, 256> in;
  std::array<std::uint8_t, 256> out{};
  for (unsigned i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
  const Source source{in.data(), Residence::pageable};
  const Target target{out.data(), Residence::pageable};
  const auto outcome =
      run_job(device, {&program, {&source, 1}, {&target, 1}, in.size()}, Verb::transform, KernelKind::tile);
  if (outcome.status != Status::ok)
    throw std::runtime_error(fmt::format("self-test: {}", outcome.reason(device.driver()).view()));
  for (unsigned i = 0; i < in.size(); ++i)
    if (out[i] != gf::mul(coefficient, in[i]))
      throw std::runtime_error(fmt::format("self-test: {} times {} gave {}", coefficient, i, out[i]));
}

}  // namespace ec::kernels::cuda
