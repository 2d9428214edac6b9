#include "bench/cpu/solve_road.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <stdexcept>

#include "gf/decode_plan.hpp"

namespace ec::bench {
namespace {

struct SolveWork {
  explicit SolveWork(const Case& c) : what(c), coding(gf::coding_matrix(c.technique, c.k, c.m)) {
    signature.wanted = gf::ChunkSet::first(c.erasures);
    signature.available = gf::ChunkSet::first(c.k + c.m) - signature.wanted;
  }

  Case what;
  gf::Matrix coding;
  gf::ErasureSignature signature;
};

/// The lost data chunks over the sources (erasures x k), as ours.
gf::Matrix solved_by_plan(const SolveWork& work) {
  auto plan = gf::make_decode_plan(work.coding, work.signature);
  if (!plan) throw std::runtime_error("no plan");
  return std::move(plan->matrix);
}

/// The same out of ISA-L's inverse: the rows of the lost chunks.
gf::Matrix solved_by_isal(const SolveWork& work) {
  const unsigned k = work.what.k;
  gf::Matrix survivors(k, k);
  unsigned row = 0;
  for (unsigned c : work.signature.available) {
    if (row == k) break;
    if (c < k)
      survivors(row, c) = 1;
    else
      std::ranges::copy(work.coding.row(c - k), survivors.row(row).begin());
    ++row;
  }
  gf::Matrix inverse(k, k);
  if (gf_invert_matrix(survivors.row(0).data(), inverse.row(0).data(), static_cast<int>(k)) != 0)
    throw std::runtime_error("isal: singular");
  gf::Matrix solved(work.what.erasures, k);
  for (unsigned r = 0; r < solved.rows(); ++r) std::ranges::copy(inverse.row(r), solved.row(r).begin());
  return solved;
}

using Solve = gf::Matrix (*)(const SolveWork&);

class Solver final : public Contestant {
 public:
  Solver(std::string name, Solve ours, std::string judge, Solve theirs, std::shared_ptr<const SolveWork> work)
      : name_(std::move(name)),
        judge_(std::move(judge)),
        ours_(ours),
        theirs_(theirs),
        work_(std::move(work)) {}

  std::string name() const override { return name_; }
  std::string path() const override { return "pageable"; }
  std::string verified_against() const override { return judge_; }
  void run(std::size_t) override {
    if (ours_(*work_).rows() != work_->what.erasures) throw std::runtime_error(name_ + ": rows are missing");
  }
  bool verify(std::size_t) override { return ours_(*work_) == theirs_(*work_); }

 private:
  std::string name_;
  std::string judge_;
  Solve ours_;
  Solve theirs_;
  std::shared_ptr<const SolveWork> work_;
};

}  // namespace

std::vector<std::unique_ptr<Contestant>> SolveRoad::line_up(const Case& c) {
  const auto work = std::make_shared<const SolveWork>(c);
  std::vector<std::unique_ptr<Contestant>> list;
  list.push_back(std::make_unique<Solver>("plan", solved_by_plan, "isal", solved_by_isal, work));
  list.push_back(std::make_unique<Solver>("isal", solved_by_isal, "plan", solved_by_plan, work));
  return list;
}

}  // namespace ec::bench
