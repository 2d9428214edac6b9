// Hands the stripes of a call to the router, and makes sentences of its answers; adds chunks as they come.
#include "plugin/library/engine.hpp"

#include <algorithm>

#include "gf/mds.hpp"
#include "kernels/cuda/options.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "support/no_cancellation.hpp"

namespace ec::library {
namespace {

using kernels::Status;

/// Only notes the settings, and writes nothing to stderr: a library is silent. Threads that race note the
/// same; no thread waits, since a child of fork() could wait for ever.
void note_settings(const codec::NodeSettings& node) {
  static constinit std::atomic<bool> done{false};
  if (done.load(std::memory_order_acquire)) return;
  kernels::cuda::configure(node.device);
  done.store(true, std::memory_order_release);
}

/// Waits for a device that is coming up. Empty if it is up, else the reason.
support::Text<255> why_no_device() noexcept {
  const support::NoCancellation whole;
  kernels::cuda::Reason why;
  return kernels::cuda::bring_up(&why) ? kernels::cuda::Reason() : why;
}

codec::Router make_router() {
  const support::NoCancellation whole;
  const codec::NodeSettings& node = codec::node_settings();
  note_settings(node);
  return codec::Router(node.backend.value_or(codec::BackendChoice::automatic), node.threshold_bytes,
                       kernels::backends(), codec::stats(), codec::validator(nullptr));
}

/// The chunks at the given places, of each stripe of `each` chunks.
template <class Chunk>
void choose(std::span<const std::uint8_t> places, const Chunk* from, std::size_t each,
            Chunks<Chunk>& chosen) {
  Chunk* const end = chosen.data() + chosen.size();
  for (Chunk* to = chosen.data(); to != end; from += each)
    for (const std::uint8_t place : places) *to++ = from[place];
}

std::size_t hash_of(std::span<const unsigned> available, std::span<const unsigned> wanted) {
  std::size_t hash = available.size();
  for (const unsigned chunk : available) hash = hash * 31 + chunk;
  for (const unsigned chunk : wanted) hash = hash * 31 + chunk;
  return hash ^ hash >> 16;
}

void check_shape(unsigned k, unsigned m) {
  if (k < 1 || m < 1) refuse("k={} and m={}: both must be at least 1", k, m);
  if (k > gf::max_chunks || m > gf::max_chunks || k + m > gf::max_chunks)
    refuse("k={} and m={}: k+m must be at most {}", k, m, gf::max_chunks);
}

using Positions = std::array<std::uint8_t, gf::max_chunks>;

/// The numbers of a list as a set; places: where each stands.
gf::ChunkSet set_of(std::string_view name, std::span<const unsigned> from, unsigned chunk_count,
                    Positions& places) {
  gf::ChunkSet set;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const unsigned chunk = from[i];
    if (chunk >= chunk_count)
      refuse("{}[{}]={}; chunks are numbered 0 to {}", name, i, chunk, chunk_count - 1);
    if (set.contains(chunk)) refuse("{}[{}]={} repeats {}[{}]", name, i, chunk, name, places[chunk]);
    set.insert(chunk);
    places[chunk] = static_cast<std::uint8_t>(i);
  }
  return set;
}

}  // namespace

std::vector<kernels::Job> jobs_of(const kernels::Program& program, std::span<const kernels::Source> sources,
                                  std::span<const kernels::Target> targets, std::size_t count,
                                  std::size_t bytes) {
  std::vector<kernels::Job> jobs;
  jobs.reserve(count);
  for (std::size_t stripe = 0; stripe < count; ++stripe)
    jobs.push_back({&program, sources.subspan(stripe * program.sources(), program.sources()),
                    targets.subspan(stripe * program.targets(), program.targets()), bytes});
  return jobs;
}

// The back end answers at once while the device comes up, which host memory does not mind.
[[gnu::noinline]] void need_device(Stream stream) {
  if (const auto why = why_no_device(); !why.empty())
    refuse(Errc::no_device, "{}, and no device is up: {}",
           stream ? "work is for a stream" : "chunks are in device memory", why.view());
}

Failure failure_of(Status status) noexcept {
  if (status == Status::busy)
    return {
        Errc::busy,
        "the device has no room for this call now: too many at once, or EC_CUDA_STAGING_BYTES is too small"};
  if (status == Status::unsupported)
    return {
        Errc::no_device,
        "no GPU takes these chunks or this stream: theirs is not in EC_CUDA_DEVICES, is not up, or there are "
        "several"};
  if (status == Status::hung)
    return {Errc::device_hung, "the device stopped answering and may still write to the targets"};
  const support::Text<255> why =
      codec::validator(nullptr).is_device_off()
          ? "it gave wrong bytes (see EC_CUDA_VALIDATE) and is not used again by this process"
          : why_no_device();
  return {Errc::device_fault, {"the device failed{}{}", why.empty() ? "" : ": ", why.view()}};
}

Decoding::Decoding(const codec::Codec& codec, bool is_mds, std::span<const unsigned> from,
                   std::span<const unsigned> to)
    : available(from.begin(), from.end()), wanted(to.begin(), to.end()) {
  const unsigned k = codec.k(), chunk_count = k + codec.m();
  Positions place_of_source, place_of_target;
  gf::ErasureSignature signature;
  signature.available = set_of("available", available, chunk_count, place_of_source);
  signature.wanted = set_of("wanted", wanted, chunk_count, place_of_target);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (signature.available.contains(wanted[i]))
      refuse("wanted[{}]={} is available[{}]; only chunks that are not can be wanted", i, wanted[i],
             place_of_source[wanted[i]]);
  if (const unsigned needed = is_mds ? k : 1; available.size() < needed)
    refuse(Errc::too_few_chunks, "available has {} chunks; {}{} are needed", available.size(),
           is_mds ? "k=" : "", needed);
  plan = codec.code().plan(signature);
  if (!plan) {
    const auto lost =
        signature.wanted - gf::solvable_chunks(codec.code().encode_program().matrix(), signature);
    if (lost.empty()) throw std::bad_alloc();
    refuse(Errc::too_few_chunks, "available does not give chunks {}, by this matrix, which is not MDS",
           fmt::join(lost, ", "));
  }
  for (const auto chunk : plan->sources) source_places.push_back(place_of_source[chunk]);
  for (const auto chunk : plan->targets) target_places.push_back(place_of_target[chunk]);
  as_given = std::ranges::equal(plan->sources, available) && std::ranges::equal(plan->targets, wanted);
}

gf::Matrix matrix_of(unsigned k, unsigned m, const std::uint8_t* cells) {
  check_shape(k, m);
  if (cells == nullptr) refuse("{} is null", "coding");
  gf::Matrix matrix(m, k);
  for (unsigned r = 0; r < m; ++r, cells += k) std::copy_n(cells, k, matrix.row(r).data());
  return matrix;
}

gf::Matrix dialect_matrix(std::string_view dialect, unsigned k, unsigned m) {
  check_shape(k, m);
  auto made = gf::dialect_matrix(dialect, k, m);
  if (made) return std::move(*made);
  if (dialect == "jerasure_reed_sol_r6_op") refuse("m={} must be 2 with dialect={}", m, dialect);
  refuse("dialect={}; allowed are {}", dialect, fmt::join(gf::dialect_names, ", "));
}

Engine::Engine(const gf::Matrix& coding, MatrixKind kind)
    : technique_(Technique::matrix), codec_(coding, make_router()) {
  const gf::Mds known = gf::check_mds(coding);
  mds_ = known.unsolvable ? Mds::no : known.proven ? Mds::yes : Mds::sampled;
  if (known.unsolvable && kind != MatrixKind::any)
    refuse(
        "coding is not MDS: with chunks {} lost the data cannot be made; EC_ANY_MATRIX and MatrixKind::any "
        "allow that",
        fmt::join(*known.unsolvable, ", "));
}

Engine::Engine(Technique technique, unsigned k, unsigned m)
    : technique_(technique),
      codec_(technique == Technique::cauchy ? gf::Technique::cauchy : gf::Technique::reed_sol_van, k, m,
             make_router()) {}

Engine::~Engine() {
  for (const auto& known : known_) delete known.load(std::memory_order_acquire);
}

/// Small calls notice the checks, and the locks and counts by which codes share their plans. So the first
/// decoding at each of a few places stays there.
const Decoding& Engine::decoding(std::span<const unsigned> available, std::span<const unsigned> wanted,
                                 std::unique_ptr<const Decoding>& made) const {
  std::atomic<const Decoding*>& place = known_[hash_of(available, wanted) % known_.size()];
  const Decoding* known = place.load(std::memory_order_acquire);
  // Of short lists; by the default the library calls memcmp.
  constexpr std::equal_to same;
  if (known != nullptr && std::ranges::equal(known->available, available, same) &&
      std::ranges::equal(known->wanted, wanted, same)) {
    codec::stats().happened(codec::Event::plan_found);
    return *known;
  }
  made = std::make_unique<const Decoding>(codec_, mds_ != Mds::no, available, wanted);
  if (known == nullptr && place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *made;
}

/// All stripes by one program, whose chunks come stripe after stripe.
Status Engine::code(codec::Operation operation, const kernels::Program& program,
                    std::span<const kernels::Source> sources, std::span<const kernels::Target> targets,
                    const Stripes& stripes, Stream stream) const {
  const std::size_t count = stripes.form.stripes, bytes = stripes.form.bytes;
  if (count == 0 || bytes == 0 || targets.empty()) return Status::ok;
  if (stream || stripes.on_device) need_device(stream);
  const codec::Router& router = codec_.router();
  if (!stream && count == 1) return router.transform({&program, sources, targets, bytes}, operation);
  const auto jobs = jobs_of(program, sources, targets, count, bytes);
  if (stream) return router.enqueue(jobs, *stream, operation);
  if (operation != codec::Operation::update) return router.transform_all(jobs, operation);
  for (const kernels::Job& job : jobs)
    if (const Status status = router.transform(job, operation); status != Status::ok)
      // `unsupported` would say that no stripe was written.
      return &job != jobs.data() && status == Status::unsupported ? Status::fault : status;
  return Status::ok;
}

Status Engine::encode(const Stripes& stripes, Stream stream) const {
  return code(codec::Operation::encode, codec_.code().encode_program(), stripes.sources, stripes.targets,
              stripes, stream);
}

Status Engine::decode(const Decoding& decoding, const Stripes& stripes, Stream stream) const {
  const codec::Plan& plan = *decoding.plan;
  if (decoding.as_given)
    return code(codec::Operation::decode, plan.program, stripes.sources, stripes.targets, stripes, stream);
  const StripeShape& form = stripes.form;
  using boost::container::default_init;
  Chunks<kernels::Source> sources(form.stripes * plan.sources.size(), default_init);
  Chunks<kernels::Target> targets(form.stripes * plan.targets.size(), default_init);
  choose(decoding.source_places, stripes.sources.data(), form.sources, sources);
  choose(decoding.target_places, stripes.targets.data(), form.targets, targets);
  return code(codec::Operation::decode, plan.program, {sources.data(), sources.size()},
              {targets.data(), targets.size()}, stripes, stream);
}

Status Engine::update(unsigned chunk, const Stripes& stripes) const {
  if (chunk >= k()) refuse("chunk={} must be a data chunk, 0 to {}", chunk, k() - 1);
  return code(codec::Operation::update, codec_.code().update_program(chunk), stripes.sources, stripes.targets,
              stripes, {});
}

Status Engine::add(const Decoding& decoding, unsigned column, bool first, const Stripes& stripes,
                   Stream stream) const {
  const gf::Matrix& matrix = decoding.plan->program.matrix();
  gf::Matrix cells(matrix.rows(), 1);
  for (unsigned r = 0; r < matrix.rows(); ++r) cells(decoding.target_places[r], 0) = matrix(r, column);
  // Work that is enqueued needs nothing of its program afterwards.
  const kernels::Program program(std::move(cells));
  return code(first ? codec::Operation::decode : codec::Operation::update, program, stripes.sources,
              stripes.targets, stripes, stream);
}

Accumulator::Accumulator(std::shared_ptr<const Engine> engine, std::span<const unsigned> available,
                         std::span<const unsigned> wanted, const Stripes& into)
    : engine_(std::move(engine)),
      decoding_(engine_->decoding(available, wanted, made_)),
      form_(into.form),
      targets_(into.targets.begin(), into.targets.end()),
      available_(gf::ChunkSet::of(available)),
      awaited_(available_),
      read_(gf::ChunkSet::of(decoding_.plan->sources)) {
  form_.sources = 1;
}

Status Accumulator::add(unsigned chunk, const kernels::Source* chunks, Stream stream) {
  if (failed_) refuse("chunk {} failed when it was added; begin anew", *failed_);
  if (chunk >= gf::max_chunks || !available_.contains(chunk))
    refuse("chunk={} is not one of available", chunk);
  if (!awaited_.contains(chunk)) refuse("chunk={} was added before", chunk);
  const Stripes stripes(add_names, form_, chunks, targets_.data(), stream.has_value());
  if (read_.contains(chunk) && form_.stripes != 0) {
    const auto& order = decoding_.plan->sources;
    const auto column = static_cast<unsigned>(std::ranges::find(order, chunk) - order.begin());
    const bool is_first = (read_ & awaited_) == read_;
    const Status status = engine_->add(decoding_, column, is_first, stripes, stream);
    if (status != Status::ok) {
      if (status != Status::unsupported) failed_ = chunk;
      return status;
    }
  }
  awaited_ = awaited_ - gf::ChunkSet{chunk};
  return Status::ok;
}

void Accumulator::end() const {
  if (failed_) refuse("chunk {} failed when it was added; begin anew", *failed_);
  if (const auto lacking = read_ & awaited_; !lacking.empty())
    refuse(Errc::too_few_chunks, "chunks {} were not added", fmt::join(lacking, ", "));
}

}  // namespace ec::library
