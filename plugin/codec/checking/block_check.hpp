// One block of columns of a job: brought to the host, made again by another back end, and compared.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gf/generator.hpp"
#include "kernels/backend.hpp"

namespace ec::codec {

/// The bytes [offset, offset + bytes) of every chunk.
struct Block {
  std::size_t offset = 0;
  std::size_t bytes = 0;

  friend bool operator==(const Block&, const Block&) = default;
};

/// Bytes of a block's targets all together, at most.
inline constexpr std::size_t block_target_bytes = std::size_t{32} << 10;

/// The longest block of so many targets, a multiple of 64: 4 KiB for up to 8 targets. Such a block is a whole
/// chunk of a pool with Ceph's stripe_unit of 4 KiB, several steps of every kernel with their ends, and so
/// little that ISA-L makes it again in a microsecond or a few.
constexpr std::size_t longest_block(std::size_t targets) {
  constexpr std::size_t longest = 4096;
  return targets * longest <= block_target_bytes ? longest : block_target_bytes / targets / 64 * 64;
}

/// A copy of the bytes of all targets of a job: `job.bytes` each, one target after the other.
struct SavedTargets {
  std::vector<std::uint8_t> bytes;

  /// Whether there is memory for them now.
  bool allocate(const kernels::Job& job) noexcept;
  /// Copies the targets. busy, fault, hung: as kernels::fetch.
  kernels::Status save(const kernels::Job& job) noexcept;
  /// Copies the bytes back.
  kernels::Status restore(const kernels::Job& job) const noexcept;
};

/// A block of a job for the host to read. Chunks on the device are copied; other chunks are only pointed at.
class BlockViews {
 public:
  /// job must outlive the views; at most gf::max_chunks sources and targets. copies: fetched_bytes() of
  /// memory.
  BlockViews(const kernels::Job& job, Block block, std::uint8_t* copies)
      : job_(job), block_(block), copies_(copies) {}

  /// Bytes of the copies of such a block.
  static std::size_t fetched_bytes(const kernels::Job& job, std::size_t block_bytes) noexcept {
    return kernels::host_addressable(job) ? 0 : (job.sources.size() + job.targets.size()) * block_bytes;
  }

  /// Fills the views. busy: the device has no room for a copy now. fault, hung: the device failed.
  kernels::Status fetch() noexcept;

  const kernels::Job& job() const { return job_; }
  Block block() const { return block_; }
  const std::uint8_t* source(std::size_t i) const { return sources_[i].data; }
  const std::uint8_t* target(std::size_t i) const { return targets_[i]; }

  /// Has `judge` make the targets of the block: one after the other, block().bytes each. before: an
  /// accumulate, on these bytes. unsupported: `judge` does not take the job.
  kernels::Status make(kernels::Backend& judge, const SavedTargets* before,
                       std::uint8_t* made) const noexcept;

 private:
  kernels::Status copy_from_device() noexcept;

  const kernels::Job& job_;
  const Block block_;
  std::uint8_t* const copies_;
  boost::container::static_vector<kernels::Source, gf::max_chunks> sources_;
  boost::container::static_vector<const std::uint8_t*, gf::max_chunks> targets_;
};

/// The first byte that differs, target by target.
struct Difference {
  std::size_t target = 0;
  std::size_t at = 0;  ///< byte of the block
  std::uint8_t got = 0;
  std::uint8_t expected = 0;
};

/// `expected`: one target after the other. got: the same, or null for the targets in the views.
std::optional<Difference> first_difference(const BlockViews& views, const std::uint8_t* got,
                                           const std::uint8_t* expected) noexcept;

}  // namespace ec::codec
