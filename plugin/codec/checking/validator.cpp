#include "plugin/codec/checking/validator.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "kernels/backends.hpp"
#include "kernels/device_stats.hpp"
#include "kernels/transfer.hpp"
#include "support/files.hpp"
#include "support/process_life.hpp"

namespace ec::codec {
namespace {

using kernels::Backend;
using kernels::Job;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::Verb;

/// The most coefficients in a log line.
constexpr std::size_t most_coefficients = 64;

constinit MadeOnce<Validator> of_process;

std::string matrix_text(const gf::Matrix& matrix) {
  if (matrix.cells().size() > most_coefficients) return fmt::format("{}x{}", matrix.rows(), matrix.cols());
  std::string text;
  for (unsigned r = 0; r < matrix.rows(); ++r)
    text += fmt::format("{}{:02x}", r == 0 ? "" : " / ", fmt::join(matrix.row(r), " "));
  return text;
}

/// All bytes of all targets, one target after the other: to `here` by kernels::fetch, or back by store.
Status move_targets(const Job& job, std::uint8_t* here, Status (*move)(const kernels::Transfer&) noexcept) {
  for (const Target& t : job.targets) {
    if (const Status status = move({t.data, t.residence, here, job.bytes}); status != Status::ok)
      return status;
    here += job.bytes;
  }
  return Status::ok;
}

}  // namespace

/// A block of a job for the host to read. Chunks on the device are copied; other chunks are only pointed at.
class Validator::BlockViews {
 public:
  /// job must outlive the views; at most gf::max_chunks sources and targets. copies: fetched_bytes() of
  /// memory.
  BlockViews(const Job& job, Block block, std::uint8_t* copies) : job_(job), block_(block), copies_(copies) {}

  /// Bytes of the copies of such a block.
  static std::size_t fetched_bytes(const Job& job, std::size_t block_bytes) noexcept {
    return host_addressable(job) ? 0 : (job.sources.size() + job.targets.size()) * block_bytes;
  }

  /// Bytes of memory for the comparison of any block of a job.
  static std::size_t comparison_bytes(const Job& job) noexcept {
    const std::size_t block = std::min(job.bytes, longest_block(job.targets.size()));
    return fetched_bytes(job, block) + 2 * job.targets.size() * block;
  }

  /// Fills the views. busy: the device has no room for a copy now. fault, hung: the device failed.
  Status fetch() noexcept {
    Status status = Status::ok;
    std::uint8_t* here = copies_;
    // The bytes of the block where the host may read them.
    const auto on_host = [&](const std::uint8_t* chunk, Residence residence) -> const std::uint8_t* {
      const std::uint8_t* const block = chunk + block_.offset;
      if (residence != Residence::device) return block;
      if (status == Status::ok)
        status = kernels::fetch({const_cast<std::uint8_t*>(block), residence, here, block_.bytes});
      return std::exchange(here, here + block_.bytes);
    };
    for (const Source& s : job_.sources)
      sources_.push_back({on_host(s.data, s.residence), Residence::pageable});
    for (const Target& t : job_.targets) targets_.push_back(on_host(t.data, t.residence));
    return status;
  }

  Block block() const { return block_; }

  /// Has `judge` make the targets of the block: one after the other, block().bytes each. before: of an
  /// accumulate, see Comparison. unsupported: `judge` does not take the job. Not inlined: its 4 KiB of
  /// targets would be in the caller's frame, once for each call, and the stack may be a fiber's.
  [[gnu::noinline]] Status make(Backend& judge, const std::uint8_t* before,
                                std::uint8_t* made) const noexcept {
    boost::container::static_vector<Target, gf::max_chunks> targets;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      targets.push_back({made + i * block_.bytes, Residence::pageable});
      if (before != nullptr)
        std::memcpy(targets.back().data, before + i * job_.bytes + block_.offset, block_.bytes);
    }
    const Job job{
        job_.program, {sources_.data(), sources_.size()}, {targets.data(), targets.size()}, block_.bytes};
    return judge.code(job, before != nullptr ? Verb::accumulate : Verb::transform);
  }

  /// The first byte that differs, target by target.
  struct Difference {
    std::size_t target, at;  ///< at: byte of the block
    std::uint8_t got, expected;
  };
  /// `expected`: one target after the other. got: the same, or null for the targets in the views.
  std::optional<Difference> first_difference(const std::uint8_t* got,
                                             const std::uint8_t* expected) const noexcept {
    const std::size_t bytes = block_.bytes;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const std::uint8_t* want = expected + i * bytes;
      const std::uint8_t* have = got != nullptr ? got + i * bytes : targets_[i];
      if (std::memcmp(have, want, bytes) == 0) continue;
      const auto at = static_cast<std::size_t>(std::mismatch(have, have + bytes, want).first - have);
      return Difference{i, at, have[at], want[at]};
    }
    return std::nullopt;
  }

  /// Writes two files into `directory`, for the owner alone: the block of each target as the back end made
  /// it, one after the other, and the right block. Returns the text about them for the log.
  std::string keep(const std::string& directory, std::string_view backend, const std::uint8_t* got,
                   const std::uint8_t* expected) const {
    const auto failed = [&](const std::string& why) {
      return fmt::format("no bytes are kept: {}: {}", directory, why);
    };
    support::Descriptor opened;
    std::string why;
    if (support::open_directory(directory, &opened, &why) != 0) return failed(why);
    const std::size_t bytes = block_.bytes, targets = targets_.size();
    const std::string_view right(reinterpret_cast<const char*>(expected), targets * bytes);
    std::string made;
    for (std::size_t i = 0; i < targets; ++i)
      made.append(reinterpret_cast<const char*>(got != nullptr ? got + i * bytes : targets_[i]), bytes);
    const std::string name = fmt::format("{}-{}-{}", backend, std::time(nullptr), getpid());
    int error = support::write_new_file(opened.get(), name + ".made", made, 0600);
    if (error == 0) error = support::write_new_file(opened.get(), name + ".right", right, 0600);
    return error == 0 ? fmt::format("its bytes: {}/{}.made and .right", directory, name)
                      : failed(std::strerror(-error));
  }

 private:
  const Job& job_;
  const Block block_;
  std::uint8_t* const copies_;
  boost::container::static_vector<Source, gf::max_chunks> sources_;
  boost::container::static_vector<const std::uint8_t*, gf::max_chunks> targets_;
};

Validator::Validator(const Validation& how, Log log, std::string directory,
                     std::array<CheckCounts, max_backends>* counts)
    : how_(how), log_(log), directory_(std::move(directory)), counts_(counts == nullptr ? own_ : *counts) {}

Validator::Answer Validator::run(std::span<Backend* const> backends, std::size_t coder,
                                 const BackendCall& call) noexcept {
  const Job& job = call.jobs[call.jobs.size() == 1 ? 0 : this_thread().draw(call.jobs.size())];
  const bool comparable = job.bytes != 0 && !job.targets.empty() && job.targets.size() <= gf::max_chunks &&
                          job.sources.size() <= gf::max_chunks;
  const bool adds = call.verb == Verb::accumulate;
  const std::span<const Job> compared = how_.whole ? call.jobs : std::span(&job, 1);
  // Memory first: without it no call is compared, and a judge does the work. Not on the stack, which may be a
  // fiber's.
  std::size_t bytes = 1;
  for (const Job& each : compared) bytes = std::max(bytes, BlockViews::comparison_bytes(each));
  const auto allocate = [](bool wanted, std::size_t size) {
    return std::unique_ptr<std::uint8_t[]>(wanted ? new (std::nothrow) std::uint8_t[size] : nullptr);
  };
  const auto memory = allocate(comparable, bytes);
  const auto before = allocate(comparable && adds, job.targets.size() * job.bytes);
  if (comparable && (!memory || (adds && !before))) return {Status::busy, true};
  const bool can_judge =
      comparable && (!adds || move_targets(job, before.get(), kernels::fetch) == Status::ok);
  const Status status = perform(*backends[coder], call);
  if (status != Status::ok || !comparable) return {status};
  Finding found = can_judge ? Finding::right : Finding::unknown;
  for (const Job& each : compared)
    if (found == Finding::right)
      found = check({backends, coder, call.jobs.size(), each, before.get(), memory.get()});
  CheckCounts& checks = counts_[coder];
  kernels::add(found == Finding::unknown ? checks.unchecked : checks.checked, 1);
  if (found == Finding::right || found == Finding::unknown) return {Status::ok};
  const Status restored = adds ? move_targets(job, before.get(), kernels::store) : Status::ok;
  if (found == Finding::device_failed) return {Status::fault};
  return {restored == Status::hung ? Status::hung : Status::fault, true};
}

Validator::Finding Validator::check(const Comparison& of) noexcept {
  const std::size_t bytes = of.job.bytes;
  const std::size_t longest = std::min(bytes, longest_block(of.job.targets.size()));
  if (how_.whole) {
    for (std::size_t offset = 0; offset < bytes; offset += longest)
      if (const Finding found = check_block(of, {offset, std::min(longest, bytes - offset)});
          found != Finding::right)
        return found;
    return Finding::right;
  }
  // Heads and tails have code of their own in every kernel, so each gets a quarter of the draws; between them
  // a block begins anywhere, so that it contains the seams of other blocks.
  const std::size_t last = bytes - longest;
  ThisThread& thread = this_thread();
  const std::uint64_t place = last == 0 ? 0 : thread.draw(4);
  return check_block(of, {place == 0 ? 0 : place == 1 ? last : thread.draw(last + 1), longest});
}

Validator::Finding Validator::check_block(const Comparison& of, Block block) noexcept {
  // Memory for the job's block, for the judge's result, and for the floor's.
  std::uint8_t* const expected = of.memory + BlockViews::fetched_bytes(of.job, block.bytes);
  BlockViews views(of.job, block, of.memory);
  if (const Status status = views.fetch(); status != Status::ok)
    return status == Status::busy ? Finding::unknown : Finding::device_failed;
  const std::size_t bytes = of.job.targets.size() * block.bytes;
  const std::size_t floor = of.backends.size() - 1;
  std::size_t judge = 0;
  Status judged = Status::unsupported;
  // A judge that has no memory for its tables is passed over too; the floor needs none.
  for (; judge <= floor && judged != Status::ok; ++judge)
    if (judge == floor ||
        (judge != of.coder && is_judge(of.backends[judge]->kind()) && (off() >> judge & 1u) == 0))
      judged = views.make(*of.backends[judge], of.before, expected);
  if (judged != Status::ok) return Finding::unknown;
  --judge;
  if (!views.first_difference(nullptr, expected)) return Finding::right;

  // Two differ, so the floor decides.
  if (judge != floor && of.coder != floor) {
    std::uint8_t* const truth = expected + bytes;
    if (views.make(*of.backends[floor], of.before, truth) == Status::ok) {
      if (views.first_difference(expected, truth)) found_wrong(of, judge, floor, views, expected, truth);
      if (!views.first_difference(nullptr, truth)) return Finding::right;
      found_wrong(of, of.coder, floor, views, nullptr, truth);
      return Finding::wrong;
    }
  }
  found_wrong(of, of.coder, judge, views, nullptr, expected);
  return Finding::wrong;
}

void Validator::found_wrong(const Comparison& of, std::size_t backend, std::size_t judge,
                            const BlockViews& views, const std::uint8_t* got,
                            const std::uint8_t* expected) noexcept try {
  kernels::add(counts_[backend].mismatches, 1);
  const unsigned bit = 1u << backend;
  if ((off_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;

  const std::string_view name = of.backends[backend]->name(), judged_by = of.backends[judge]->name();
  const std::string kept = views.keep(directory_, name, got, expected);
  if (log_ == nullptr) return;
  const auto first = views.first_difference(got, expected);
  const gf::Matrix& matrix = of.job.program->matrix();
  log_(fmt::format(
           "ec_cuda: {} gave wrong bytes and is not used again by this process: byte {} of target {} is "
           "{:#04x}, {} says {:#04x}: {} {}x{}, {} of chunks of {} bytes, matrix {}; block of {} bytes at "
           "{}; {}",
           name, views.block().offset + first->at, first->target, first->got, judged_by, first->expected,
           of.before != nullptr ? "accumulate" : "transform", matrix.rows(), matrix.cols(),
           of.stripes == 1 ? "one stripe" : fmt::format("{} stripes", of.stripes), of.job.bytes,
           matrix_text(matrix), views.block().bytes, views.block().offset, kept)
           .c_str());
} catch (const std::exception&) {
  // No memory for a log line; the back end is off and counted.
}

bool Validator::is_device_off() const noexcept {
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->kind() == kernels::BackendKind::device && (off() >> i & 1u) != 0) return true;
  return false;
}

Validator& no_validation() noexcept {
  static NeverDestroyed<Validator> none;
  return none.value;
}

Validator& validator(Validator::Log log) {
  return of_process.get([&] {
    return std::make_unique<Validator>(node_settings().validation, log, "/var/lib/ec_cuda/mismatches",
                                       &stats().page().checks);
  });
}

}  // namespace ec::codec
