#include "bench/cpu/cpu_road.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/container/static_vector.hpp>
#include <cstring>
#include <new>
#include <stdexcept>

#include "bench/common/pool.hpp"
#include "bench/cpu/move_limit.hpp"
#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::bench {
namespace {

using kernels::Source;
using kernels::Status;
using kernels::Target;

template <class T>
using Chunks = boost::container::static_vector<T, gf::max_chunks>;

constexpr std::size_t page = 4096;
constexpr std::size_t scatter_bytes = 17 * 64;
/// Signatures after which a code has to forget one for each new one.
constexpr unsigned more_than_cached = 1 << 13;

/// Stripes of k + m chunks, and m places more where decoding writes.
class CpuWork {
 public:
  CpuWork(const Case& c, Layout layout)
      : what(c),
        code(codec::Code::get(c.technique, c.k, c.m)),
        chunks_(c.k + c.m + (c.op == "encode" ? 0 : c.m)),
        stride_(c.chunk_bytes + (layout == Layout::scattered ? scatter_bytes : 0)),
        bytes_(static_cast<std::uint8_t*>(
            ::operator new (c.stripes* chunks_* stride_, std::align_val_t{page}))) {
    if (c.chunk_bytes % 64 != 0) throw std::runtime_error("chunks must be multiples of 64 bytes");
    fill_random({bytes_.get(), c.stripes * chunks_ * stride_}, c.chunk_bytes);
    for (std::size_t s = 0; s < c.stripes; ++s) encode_by(*kernels::find_backend("isal"), s);
    signature.available = gf::ChunkSet::first(c.k + c.m);
    signature.wanted = gf::ChunkSet::first(c.erasures);
    signature.available = signature.available - signature.wanted;
    plan = code->plan(signature);
    if (c.op == "decode-miss")
      for (unsigned i = 0; i < more_than_cached; ++i) static_cast<void>(plan_never_seen());
  }

  std::uint8_t* chunk(std::size_t stripe, unsigned index) const {
    return bytes_.get() + (stripe * chunks_ + index) * stride_;
  }
  /// Where the target chunk of that index is written when it is decoded.
  std::uint8_t* decoded(std::size_t stripe, unsigned index) const {
    return chunk(stripe, what.k + what.m + index);
  }

  void encode_by(kernels::Backend& backend, std::size_t stripe) const {
    Chunks<Source> data;
    Chunks<Target> coding;
    for (unsigned i = 0; i < what.k; ++i) data.push_back({chunk(stripe, i)});
    for (unsigned i = 0; i < what.m; ++i) coding.push_back({chunk(stripe, what.k + i)});
    code_by(backend, code->encode_program(), data, coding);
  }

  void decode_by(kernels::Backend& backend, std::size_t stripe, const std::vector<std::uint8_t>& from,
                 const kernels::Program& program) const {
    Chunks<Source> sources;
    Chunks<Target> targets;
    for (auto c : from) sources.push_back({chunk(stripe, c)});
    for (unsigned i = 0; i < what.erasures; ++i) targets.push_back({decoded(stripe, i)});
    code_by(backend, program, sources, targets);
  }

  /// The plan, for a signature that is another one at each call: chunks that the code does not have are
  /// available too. Always of the same matrix.
  std::shared_ptr<const codec::Plan> plan_never_seen() const {
    gf::ErasureSignature unseen = signature;
    std::uint64_t number = ++signatures_;
    for (unsigned chunk = gf::ChunkSet::capacity; number != 0; number >>= 1) {
      --chunk;
      if (number & 1) unseen.available.insert(chunk);
    }
    return code->plan(unseen);
  }

  Case what;
  std::shared_ptr<codec::Code> code;
  gf::ErasureSignature signature;
  std::shared_ptr<const codec::Plan> plan;

 private:
  void code_by(kernels::Backend& backend, const kernels::Program& program, const Chunks<Source>& sources,
               const Chunks<Target>& targets) const {
    const Status status = backend.transform(
        {&program, {sources.data(), sources.size()}, {targets.data(), targets.size()}, what.chunk_bytes});
    if (status != Status::ok)
      throw std::runtime_error(fmt::format("{}: {}", backend.name(), kernels::name(status)));
  }

  struct Free {
    void operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{page}); }
  };
  unsigned chunks_;
  std::size_t stride_;
  std::unique_ptr<std::uint8_t, Free> bytes_;
  mutable std::atomic<std::uint64_t> signatures_{0};
};

/// Whether the back end is one of a CPU, and of this one.
bool runs_here(kernels::Backend& backend) {
  if (backend.name().starts_with("cuda")) return false;
  const kernels::Program program(gf::Matrix(1, 1));
  const std::uint8_t from = 0;
  std::uint8_t to = 0;
  const Source source{&from};
  const Target target{&to};
  return backend.supports({&program, {&source, 1}, {&target, 1}, 1});
}

/// What encode is verified against: a back end that is not the contestant's own.
std::string_view judge_of(std::string_view contestant) {
  if (!contestant.starts_with("isal")) return "isal";
  kernels::Backend* x86 = kernels::find_backend("x86");
  return x86 != nullptr && runs_here(*x86) ? "x86" : "reference";
}

class BackendContestant final : public Contestant {
 public:
  BackendContestant(kernels::Backend& backend, std::shared_ptr<const CpuWork> work)
      : backend_(backend), work_(std::move(work)) {}

  std::string name() const override { return std::string(backend_.name()); }
  std::string path() const override { return "pageable"; }
  std::string verified_against() const override {
    return work_->what.op != "encode" ? "the data" : std::string(judge_of(backend_.name()));
  }

  void run(std::size_t stripe) override {
    if (work_->what.op == "encode") {
      work_->encode_by(backend_, stripe);
    } else if (work_->what.op == "decode") {
      work_->decode_by(backend_, stripe, work_->plan->sources, work_->plan->program);
    } else if (work_->what.op == "decode-new") {
      const codec::Plan plan(*gf::make_decode_plan(work_->code->encode_program().matrix(), work_->signature));
      work_->decode_by(backend_, stripe, plan.sources, plan.program);
    } else {
      const auto plan = work_->plan_never_seen();
      if (!plan) throw std::runtime_error("no memory for a plan");
      work_->decode_by(backend_, stripe, plan->sources, plan->program);
    }
  }

  bool verify(std::size_t stripe) override {
    const Case& c = work_->what;
    if (c.op == "encode") work_->encode_by(*kernels::find_backend(verified_against()), stripe);
    std::vector<std::vector<std::uint8_t>> expected;
    for (unsigned i = 0; i < outputs(); ++i) {
      const std::uint8_t* right = work_->chunk(stripe, c.op == "encode" ? c.k + i : i);
      expected.emplace_back(right, right + c.chunk_bytes);
      std::memset(output(stripe, i), 0x5a, c.chunk_bytes);
    }
    run(stripe);
    for (unsigned i = 0; i < outputs(); ++i)
      if (std::memcmp(output(stripe, i), expected[i].data(), c.chunk_bytes) != 0) return false;
    return true;
  }

 private:
  unsigned outputs() const { return work_->what.op == "encode" ? work_->what.m : work_->what.erasures; }
  std::uint8_t* output(std::size_t stripe, unsigned i) const {
    return work_->what.op == "encode" ? work_->chunk(stripe, work_->what.k + i) : work_->decoded(stripe, i);
  }

  kernels::Backend& backend_;
  std::shared_ptr<const CpuWork> work_;
};

class MoveContestant final : public Contestant {
 public:
  MoveContestant(const MoveShape& shape, std::shared_ptr<const CpuWork> work)
      : shape_(shape), work_(std::move(work)) {}

  std::string name() const override { return "limit: " + shape_.name; }
  std::string path() const override { return "pageable"; }
  std::string verified_against() const override { return "the sum of the words"; }
  void run(std::size_t stripe) override { move(stripe); }

  bool verify(std::size_t stripe) override {
    std::uint64_t expected = 0;
    for (unsigned i = 0; i < work_->what.k; ++i)
      for (std::size_t at = 0; at < work_->what.chunk_bytes; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, work_->chunk(stripe, i) + at, 8);
        expected ^= word;
      }
    return move(stripe) == expected;
  }

 private:
  /// Encoding's traffic, or as much of it as decoding has.
  std::uint64_t move(std::size_t stripe) const {
    const Case& c = work_->what;
    std::array<const std::uint8_t*, gf::max_chunks> sources;
    std::array<std::uint8_t*, gf::max_chunks> targets;
    const unsigned written = c.op == "encode" ? c.m : c.erasures;
    for (unsigned i = 0; i < c.k; ++i) sources[i] = work_->chunk(stripe, i);
    for (unsigned i = 0; i < written; ++i)
      targets[i] = c.op == "encode" ? work_->chunk(stripe, c.k + i) : work_->decoded(stripe, i);
    return move_bytes(shape_, {sources.data(), c.k}, {targets.data(), written}, c.chunk_bytes);
  }

  const MoveShape& shape_;
  std::shared_ptr<const CpuWork> work_;
};

}  // namespace

CpuRoad::CpuRoad(const std::vector<std::string>& isal_files) {
  for (const auto& file : isal_files) loaded_.push_back(std::make_unique<LoadedIsal>(file));
}

std::vector<std::unique_ptr<Contestant>> CpuRoad::line_up(const Case& c) {
  const auto work = std::make_shared<const CpuWork>(c, layout_);
  std::vector<std::unique_ptr<Contestant>> list;
  for (const MoveShape& shape : move_shapes()) list.push_back(std::make_unique<MoveContestant>(shape, work));
  std::vector<kernels::Backend*> backends(kernels::variants().begin(), kernels::variants().end());
  backends.push_back(kernels::find_backend("isal"));
  for (auto* backend : backends)
    if (runs_here(*backend)) list.push_back(std::make_unique<BackendContestant>(*backend, work));
  if (c.op == "decode-new" || c.op == "decode-miss") return list;
  for (const auto& isal : loaded_) {
    isal->prepare(c.op == "encode" ? work->code->encode_program() : work->plan->program);
    list.push_back(std::make_unique<BackendContestant>(*isal, work));
  }
  return list;
}

}  // namespace ec::bench
