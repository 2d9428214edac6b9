// What it costs to find out how lost data chunks are made of the survivors, without any chunk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/common/contestant.hpp"

namespace ec::bench {

/// The operation solve: all `erasures` first data chunks are lost. Contestants: "plan", ours, which solves
/// for the lost chunks alone; "isal", whose gf_invert_matrix inverts the survivors' k rows of the generator.
/// Each is verified against the other.
class SolveRoad final : public Road {
 public:
  std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) override;
  std::string baseline() const override { return "isal"; }
};

}  // namespace ec::bench
