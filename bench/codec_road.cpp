#include "bench/codec_road.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <stdexcept>

#include "bench/oracle.hpp"
#include "bench/pool.hpp"
#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::bench {
namespace {

using kernels::Job;
using kernels::Source;
using kernels::Status;
using kernels::Target;

/// The jobs of a case, one a stripe, and the memory and programs behind them.
class Work {
 public:
  explicit Work(const Case& c)
      : case_(c),
        code_(codec::Code::get(c.technique, c.k, c.m)),
        pool_(c.stripes, c.k + 2 * c.m, c.chunk_bytes) {
    const std::vector<unsigned> sources = set_up();
    sources_.reserve(c.stripes);
    targets_.reserve(c.stripes);
    for (std::size_t s = 0; s < c.stripes; ++s) {
      if (c.op == "decode") fill_coding(s);
      auto& from = sources_.emplace_back();
      for (unsigned chunk : sources) from.push_back({pool_.chunk(s, chunk)});
      auto& to = targets_.emplace_back();
      for (unsigned i = 0; i < program_->targets(); ++i) to.push_back({pool_.chunk(s, first_target_ + i)});
    }
  }

  Job job(std::size_t stripe) const {
    return {program_, sources_[stripe], targets_[stripe], case_.chunk_bytes};
  }
  bool accumulates() const { return case_.op == "update"; }

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

  void fill_coding(std::size_t stripe) const {
    std::vector<Source> data;
    std::vector<Target> coding;
    for (unsigned c = 0; c < case_.k; ++c) data.push_back({pool_.chunk(stripe, c)});
    for (unsigned c = 0; c < case_.m; ++c) coding.push_back({pool_.chunk(stripe, case_.k + c)});
    const auto status =
        kernels::find_backend("isal")->transform({&code_->encode_program(), data, coding, case_.chunk_bytes});
    if (status != Status::ok) throw std::runtime_error("cannot prepare the coding chunks");
  }

  Case case_;
  std::shared_ptr<codec::Code> code_;
  Pool pool_;
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
  std::string path() const override { return "pageable"; }
  /// No back end is its own judge.
  std::string verified_against() const override { return name_ == "reference" ? "isal" : "reference"; }

  void run(std::size_t stripe) override {
    const Job job = work_->job(stripe);
    const Status status = work_->accumulates() ? coder_.accumulate(job) : coder_.transform(job);
    if (status != Status::ok) throw std::runtime_error(fmt::format("{}: {}", name_, kernels::name(status)));
  }

  bool verify(std::size_t stripe) override {
    const Job job = work_->job(stripe);
    const auto expected = judged(*kernels::find_backend(verified_against()), job, work_->accumulates());
    if (!work_->accumulates())
      for (const Target& t : job.targets) std::memset(t.data, 0x5a, job.bytes);
    run(stripe);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (std::memcmp(job.targets[i].data, expected[i].data(), job.bytes) != 0) return false;
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

class CodecRoad final : public Road {
 public:
  explicit CodecRoad(const std::vector<std::string>& contestants) : names_(contestants) {
    for (const auto& name : names_)
      if (name != "router" && kernels::find_backend(name) == nullptr)
        throw UsageError(
            fmt::format("--backend {}: must be one of {}", name, fmt::join(contestant_names(), ", ")));
  }

  std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) override {
    const auto work = std::make_shared<const Work>(c);
    std::vector<std::unique_ptr<Contestant>> list;
    for (const auto& name : names_)
      if (name == "router")
        list.push_back(std::make_unique<CodecContestant<const codec::Router>>(name, router_, work));
      else
        list.push_back(
            std::make_unique<CodecContestant<kernels::Backend>>(name, *kernels::find_backend(name), work));
    return list;
  }
  std::string baseline() const override { return "isal"; }

 private:
  std::vector<std::string> names_;
  codec::Router router_{codec::BackendChoice::automatic, codec::NodeSettings{}.threshold_bytes};
};

}  // namespace

Subcommand codec_subcommand() {
  return {.name = "codec",
          .contestants_option = "backend",
          .contestants_default = "isal,reference",
          .contestants_help = fmt::format("back ends: {}", fmt::join(contestant_names(), ", ")),
          .ops = {"encode", "decode", "update"}};
}

std::unique_ptr<Road> make_codec_road(const std::vector<std::string>& contestants) {
  return std::make_unique<CodecRoad>(contestants);
}

}  // namespace ec::bench
