// The CPU back ends side by side with the memory limit, on chunks laid out in two ways.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/common/contestant.hpp"
#include "bench/cpu/loaded_isal.hpp"

namespace ec::bench {

/// contiguous: the chunks of a stripe side by side. scattered: the same with 17 cache lines between them, so
/// that chunks of a power of two do not share cache sets.
enum class Layout { contiguous, scattered };

constexpr std::string_view name(Layout layout) {
  return layout == Layout::contiguous ? "contiguous" : "scattered";
}

/// Contestants: every move shape ("limit: ..."), every x86 variant this CPU has, the linked isal, and every
/// loaded one. Operations: encode; decode (the plan is known). Of back ends of this build only: decode-new
/// (each call solves its signature, expands the matrix and forgets both); decode-miss (each call asks the
/// code for the plan of a signature that it never saw, and that takes the place of another, for the cache is
/// full). Chunks must be multiples of 64 bytes.
class CpuRoad final : public Road {
 public:
  /// isal_files: further builds of ISA-L. Throws std::runtime_error for one that cannot be loaded.
  explicit CpuRoad(const std::vector<std::string>& isal_files);

  void set_layout(Layout layout) { layout_ = layout; }

  std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) override;
  std::string baseline() const override { return "isal"; }

 private:
  Layout layout_ = Layout::contiguous;
  std::vector<std::unique_ptr<LoadedIsal>> loaded_;
};

/// Whether a contestant of that name only moves bytes.
inline bool is_limit(std::string_view contestant) { return contestant.starts_with("limit: "); }

}  // namespace ec::bench
