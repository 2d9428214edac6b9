// Stripes in memory of any kind, the jobs on them, and an oracle's answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plugin/codec/stats/stats_page.hpp"
#include "tests/common/conformance.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {

/// The operation by which a router does a job of this verb.
constexpr codec::Operation operation_of(kernels::Verb verb) {
  return verb == kernels::Verb::accumulate ? codec::Operation::update : codec::Operation::encode;
}

/// `count` stripes of k+m chunks of `bytes`, random by `seed`: sources in one piece of memory, targets in
/// another, with random bytes before. The preload's arena serves pinned memory while it is open.
class PlacedStripes {
 public:
  struct Shape {
    std::size_t bytes = 0;
    kernels::Residence sources = kernels::Residence::pageable;
    kernels::Residence targets = kernels::Residence::pageable;
    Verb verb = Verb::transform;
    std::size_t count = 1;
    bool generated = false;  ///< the matrix is that of reed_sol_van; else random by `seed`
    unsigned k = 4, m = 2;   ///< with generated these have kernels of their own
    /// Memory is the allocator's, and the jobs say what it is: the preload's arena has pinned memory.
    bool as_found = false;
  };
  PlacedStripes(const Shape& shape, std::uint64_t seed);
  PlacedStripes(const PlacedStripes&) = delete;  // its jobs point into it
  PlacedStripes& operator=(const PlacedStripes&) = delete;

  /// Whether there is memory, and the content is in it.
  explicit operator bool() const { return placed_; }
  const Shape& shape() const { return shape_; }
  std::span<const kernels::Job> jobs() const { return jobs_; }
  const kernels::Program& program() const { return program_; }
  const oracle::Rows& rows() const { return rows_; }
  /// What this target has to be.
  oracle::Bytes expected(std::size_t target) const;

  /// Whether the targets hold what they should, or of each the first bytes; nothing if they cannot be read.
  std::optional<bool> right() const { return hold(expected_, shape_.bytes); }
  std::optional<bool> right(std::size_t bytes) const { return hold(expected_, bytes); }
  std::optional<bool> as_before() const { return hold(before_, shape_.bytes); }
  /// Whether nobody has written to the sources.
  bool has_sources() const;
  /// Other content for the targets.
  void fill_targets(std::uint8_t value);
  /// The content that they had before; false on a fault.
  bool restore_targets() const {
    return target_memory_.upload(target_memory_.data(), before_.data(), before_.size());
  }
  /// Other content for the sources, whose answer is right() from now on; transform only.
  bool refill(std::uint64_t seed);
  /// The memory is never given back: a device that stopped answering may still write it.
  void abandon() const;

 private:
  std::size_t stride() const { return (shape_.bytes + 15) / 16 * 16; }
  std::optional<bool> hold(const oracle::Bytes& content, std::size_t bytes) const;

  const Shape shape_;
  const oracle::Rows rows_;
  const kernels::Program program_;
  tools::Buffer source_memory_, target_memory_;
  oracle::Bytes source_bytes_, before_, expected_;  // before_ and expected_: of all targets
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
  std::vector<kernels::Job> jobs_;
  bool placed_ = false;
};

}  // namespace ec::test
