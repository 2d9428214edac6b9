// The chunks of a job that the device cannot or must not touch, and their place in staging memory meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/kernels/stripe_launch.hpp"

namespace ec::kernels::cuda {

/// The same part of every chunk.
struct Slice {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::uint8_t* staging = nullptr;  ///< pinned: where that of the first staged chunk lies,
  std::size_t stride = 0;           ///< and how far from there that of the next one, in bytes
};

/// A view of a job, which must outlive it. Staged are pageable chunks, and targets of
/// accumulate in any host memory. For one thread.
class StagedChunks {
 public:
  StagedChunks(const Job& job, Verb verb);

  /// How many are staged.
  std::size_t count() const;
  /// Whether the device writes some target where it lies.
  bool writes_in_place() const;

  /// Has sources() and targets() be the addresses of a slice as the device sees them.
  void look_at(const Slice& slice) noexcept;
  std::span<const std::uint8_t* const> sources() const { return sources_; }
  std::span<std::uint8_t* const> targets() const { return targets_; }

  /// Copies what the device reads of a slice, or what it has written, between chunks and staging memory;
  /// looks at it.
  void copy_in(const Slice& slice) noexcept;
  void copy_out(const Slice& slice) noexcept;

 private:
  bool is_staged(const Source& s) const { return s.residence == Residence::pageable; }
  bool is_staged(const Target& t) const {
    return t.residence == Residence::pageable ||
           (verb_ == Verb::accumulate && t.residence == Residence::pinned);
  }

  const Job& job_;
  const Verb verb_;
  std::vector<const std::uint8_t*> sources_;
  std::vector<std::uint8_t*> targets_;
};

}  // namespace ec::kernels::cuda
