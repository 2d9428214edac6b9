// A matrix ready to be applied to chunks, with the expansions that back ends make of it once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "gf/matrix.hpp"

namespace ec::kernels {

/// Data that a back end derives from a matrix (expanded tables).
class Expansion {
 public:
  virtual ~Expansion() = default;
};

/// One place per kind of expansion in every Program.
enum class ExpansionSlot : unsigned { isal, x86_affine, x86_shuffle, count };

/// Numbers of the chunks that are columns and rows of a matrix, data chunks first, in memory that outlives
/// the program. Both are empty if they are not known.
struct ChunkNumbers {
  std::span<const std::uint8_t> sources, targets;
};

/// An immutable matrix (targets x sources) shared by threads. Expansions are made on first use and live as
/// long as the program, so a cached program costs a back end nothing to set up again.
class Program {
 public:
  /// chunks: hints by which a back end may look for structure; they change no byte.
  explicit Program(gf::Matrix matrix, ChunkNumbers chunks = {})
      : matrix_(std::move(matrix)), chunks_(chunks) {}
  ~Program() {
    for (auto& place : expansions_) delete place.load(std::memory_order_acquire);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const gf::Matrix& matrix() const { return matrix_; }
  const ChunkNumbers& chunks() const { return chunks_; }
  unsigned targets() const { return matrix_.rows(); }
  unsigned sources() const { return matrix_.cols(); }

  /// The expansion in `slot`, made by `make` (returning std::unique_ptr<Expansion>; null on failure, or
  /// throwing std::bad_alloc) if the slot is empty. Thread safe and lock free: threads that race each make
  /// one, and one of them is kept. Null only if `make` failed; a later call tries again.
  template <class Make>
  const Expansion* expansion(ExpansionSlot slot, Make&& make) const noexcept {
    std::atomic<const Expansion*>& place = expansions_[static_cast<std::size_t>(slot)];
    if (const Expansion* there = place.load(std::memory_order_acquire)) return there;
    try {
      std::unique_ptr<const Expansion> made = std::forward<Make>(make)();
      const Expansion* expected = nullptr;
      if (made && place.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel))
        return made.release();
      return expected;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

 private:
  gf::Matrix matrix_;
  ChunkNumbers chunks_;
  mutable std::array<std::atomic<const Expansion*>, static_cast<std::size_t>(ExpansionSlot::count)>
      expansions_{};
};

}  // namespace ec::kernels
