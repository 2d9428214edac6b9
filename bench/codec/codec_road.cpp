#include "bench/codec/codec_road.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <stdexcept>

#include "bench/common/oracle.hpp"
#include "bench/common/placed_pool.hpp"
#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::bench {
namespace {

using kernels::Job;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;

/// The jobs of a case, one a stripe, and the memory and programs behind them.
class Work {
 public:
  Work(const Case& c, Residence residence)
      : case_(c),
        code_(codec::Code::get(c.technique, c.k, c.m)),
        pool_(c.stripes, c.k + 2 * c.m, c.chunk_bytes, residence) {
    chunks_read_ = set_up();
    sources_.reserve(c.stripes);
    targets_.reserve(c.stripes);
    for (std::size_t s = 0; s < c.stripes; ++s) {
      if (c.op == "decode") fill_coding(s);
      auto& from = sources_.emplace_back();
      for (unsigned chunk : chunks_read_) from.push_back(pool_.source(s, chunk));
      auto& to = targets_.emplace_back();
      for (unsigned i = 0; i < program_->targets(); ++i) to.push_back(pool_.target(s, first_target_ + i));
    }
    pool_.place();
  }

  Job job(std::size_t stripe) const {
    return {program_, sources_[stripe], targets_[stripe], case_.chunk_bytes};
  }
  bool accumulates() const { return case_.op == "update"; }
  Residence residence() const { return pool_.residence(); }

  /// The targets as `judge` makes them of the same sources and of targets that hold what spoil() wrote.
  std::vector<std::vector<std::uint8_t>> expected(kernels::Backend& judge, std::size_t stripe) const {
    std::vector<Source> from;
    std::vector<Target> to;
    for (unsigned chunk : chunks_read_) from.push_back({pool_.twin(stripe, chunk)});
    std::vector<std::vector<std::uint8_t>> spoiled(program_->targets(), spoil_bytes());
    for (auto& target : spoiled) to.push_back({target.data()});
    return judged(judge, {program_, from, to, case_.chunk_bytes}, accumulates());
  }
  /// Fills the targets of a stripe with a known pattern, so that bytes that are not written show.
  void spoil(std::size_t stripe) const {
    for (unsigned i = 0; i < program_->targets(); ++i) pool_.write(stripe, first_target_ + i, spoil_bytes());
  }
  std::vector<std::uint8_t> result(std::size_t stripe, unsigned target) const {
    return pool_.read(stripe, first_target_ + target);
  }

 private:
  /// Chooses program and targets; returns the chunks to read.
  std::vector<unsigned> set_up() {
    std::vector<unsigned> sources;
    first_target_ = case_.k;
    if (case_.op == "update") {
      program_ = &code_->update_program(0);
      return {0};
    }
    if (case_.op == "encode") {
      program_ = &code_->encode_program();
      for (unsigned c = 0; c < case_.k; ++c) sources.push_back(c);
      return sources;
    }
    gf::ErasureSignature signature{gf::ChunkSet::first(case_.k + case_.m),
                                   gf::ChunkSet::first(case_.erasures)};
    signature.available = signature.available - signature.wanted;
    plan_ = code_->plan(signature);
    if (!plan_) throw std::runtime_error("no decode plan");
    program_ = &plan_->program;
    first_target_ = case_.k + case_.m;
    return {plan_->sources.begin(), plan_->sources.end()};
  }

  std::vector<std::uint8_t> spoil_bytes() const { return std::vector<std::uint8_t>(case_.chunk_bytes, 0x5a); }

  void fill_coding(std::size_t stripe) const {
    std::vector<Source> data;
    std::vector<Target> coding;
    for (unsigned c = 0; c < case_.k; ++c) data.push_back({pool_.twin(stripe, c)});
    for (unsigned c = 0; c < case_.m; ++c) coding.push_back({pool_.twin(stripe, case_.k + c)});
    const auto status =
        kernels::find_backend("isal")->transform({&code_->encode_program(), data, coding, case_.chunk_bytes});
    if (status != Status::ok) throw std::runtime_error("cannot prepare the coding chunks");
  }

  Case case_;
  std::shared_ptr<codec::Code> code_;
  PlacedPool pool_;
  std::vector<unsigned> chunks_read_;
  std::shared_ptr<const codec::Plan> plan_;
  const kernels::Program* program_ = nullptr;
  unsigned first_target_ = 0;
  std::vector<std::vector<Source>> sources_;
  std::vector<std::vector<Target>> targets_;
};

/// Coder: something with transform(Job) and accumulate(Job).
template <class Coder>
class CodecContestant final : public Contestant {
 public:
  CodecContestant(std::string name, Coder& coder, std::shared_ptr<const Work> work)
      : name_(std::move(name)), coder_(coder), work_(std::move(work)) {}

  std::string name() const override { return name_; }
  std::string path() const override { return std::string(kernels::name(work_->residence())); }
  /// No back end is its own judge.
  std::string verified_against() const override { return name_ == "reference" ? "isal" : "reference"; }

  void run(std::size_t stripe) override {
    const Job job = work_->job(stripe);
    const Status status = work_->accumulates() ? coder_.accumulate(job) : coder_.transform(job);
    if (status != Status::ok) throw std::runtime_error(fmt::format("{}: {}", name_, kernels::name(status)));
  }

  bool verify(std::size_t stripe) override {
    const auto expected = work_->expected(*kernels::find_backend(verified_against()), stripe);
    work_->spoil(stripe);
    run(stripe);
    for (unsigned i = 0; i < expected.size(); ++i)
      if (work_->result(stripe, i) != expected[i]) return false;
    return true;
  }

 private:
  std::string name_;
  Coder& coder_;
  std::shared_ptr<const Work> work_;
};

std::vector<std::string> contestant_names() {
  std::vector<std::string> names;
  for (const auto* b : kernels::backends()) names.emplace_back(b->name());
  names.emplace_back("router");
  return names;
}

/// "cuda@pinned": who codes, and where the chunks lie; pageable if not said.
struct Entrant {
  std::string coder;
  Residence residence = Residence::pageable;
};

Entrant parse_entrant(const std::string& text) {
  const auto at = text.find('@');
  Entrant entrant{text.substr(0, at)};
  const std::string place = at == std::string::npos ? "pageable" : text.substr(at + 1);
  bool known = entrant.coder == "router" || kernels::find_backend(entrant.coder) != nullptr;
  bool placed = false;
  for (const auto r : {Residence::pageable, Residence::pinned, Residence::device})
    if (place == name(r)) {
      entrant.residence = r;
      placed = true;
    }
  if (!known || !placed)
    throw UsageError(
        fmt::format("--backend {}: must be one of {}, with @pageable, @pinned or @device behind it", text,
                    fmt::join(contestant_names(), ", ")));
  return entrant;
}

/// The device comes up in the background otherwise, and says busy meanwhile.
void require_device() {
#ifdef EC_WITH_CUDA
  std::string why;
  if (!kernels::cuda::bring_up(&why)) throw std::runtime_error("no device: " + why);
#endif
}

class CodecRoad final : public Road {
 public:
  explicit CodecRoad(const std::vector<std::string>& contestants) {
    for (const auto& text : contestants) {
      entrants_.push_back(parse_entrant(text));
      if (entrants_.back().coder == "cuda") require_device();
    }
  }

  std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) override {
    std::map<Residence, std::shared_ptr<const Work>> works;
    std::vector<std::unique_ptr<Contestant>> list;
    for (const auto& [coder, residence] : entrants_) {
      auto& work = works[residence];
      if (!work) work = std::make_shared<const Work>(c, residence);
      if (coder == "router")
        list.push_back(std::make_unique<CodecContestant<const codec::Router>>(coder, router_, work));
      else
        list.push_back(
            std::make_unique<CodecContestant<kernels::Backend>>(coder, *kernels::find_backend(coder), work));
    }
    return list;
  }
  std::string baseline() const override { return "isal"; }

 private:
  std::vector<Entrant> entrants_;
  codec::Router router_{codec::BackendChoice::automatic, std::nullopt};
};

}  // namespace

Subcommand codec_subcommand() {
  return {.name = "codec",
          .contestants_option = "backend",
          .contestants_default = "isal,reference",
          .contestants_help = fmt::format("back ends: {}; @pinned or @device behind one for such memory",
                                          fmt::join(contestant_names(), ", ")),
          .ops = {"encode", "decode", "update"}};
}

std::unique_ptr<Road> make_codec_road(const std::vector<std::string>& contestants) {
  return std::make_unique<CodecRoad>(contestants);
}

}  // namespace ec::bench
