// Memory for test chunks, by residence, so that one suite serves host, pinned and device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/residence.hpp"

namespace ec::test {

/// Memory of one residence; the host touches its bytes only through upload and download. Not thread safe.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  virtual ~Arena() = default;

  virtual kernels::Residence residence() const = 0;
  /// At least `bytes` bytes whose address is `misalignment` (0..255) above a multiple of 256. Null when out
  /// of memory. The caller gives it back with release().
  virtual std::uint8_t* allocate(std::size_t bytes, unsigned misalignment) = 0;
  virtual void release(std::uint8_t* data) = 0;
  virtual void upload(std::uint8_t* to, const std::uint8_t* host, std::size_t bytes) = 0;
  virtual void download(std::uint8_t* host, const std::uint8_t* from, std::size_t bytes) = 0;
  /// Whether an allocation ends where an overrun is fatal, so that no guard bytes belong behind a chunk.
  virtual bool ends_at_edge() const { return false; }
};

/// Ordinary heap memory.
std::unique_ptr<Arena> pageable_arena();

/// Ordinary memory whose last byte is followed directly by a page that nobody may touch: an overrun by one
/// byte ends the process. It does not grant a misalignment; the end decides.
std::unique_ptr<Arena> page_edge_arena();

/// Pinned or device memory; null if this build or machine has none.
std::unique_ptr<Arena> cuda_arena(kernels::Residence residence);

/// The residences this build can have, whether or not a device is there.
std::vector<kernels::Residence> residences();

/// The arena of a residence that the process keeps; null if the machine has none.
Arena* arena_of(kernels::Residence residence);

/// A chunk with guard bytes on both sides. Owns its memory; must not outlive the arena.
class GuardedChunk {
 public:
  /// `misalignment`: of the first byte of the chunk, above a multiple of 256.
  GuardedChunk(Arena& arena, const std::vector<std::uint8_t>& content, unsigned misalignment);
  GuardedChunk(GuardedChunk&& other) noexcept;
  GuardedChunk& operator=(GuardedChunk&&) = delete;
  ~GuardedChunk();

  std::uint8_t* data() const { return block_ + guard_bytes; }
  kernels::Source source() const { return {data(), arena_->residence()}; }
  kernels::Target target() const { return {data(), arena_->residence()}; }

  struct State {
    std::vector<std::uint8_t> content;
    bool guards_intact = false;  ///< Every byte around the chunk is as it was laid.
  };
  State inspect() const;
  /// Whether it holds that, between intact guards.
  bool holds(const std::vector<std::uint8_t>& content) const {
    const State state = inspect();
    return state.guards_intact && state.content == content;
  }
  /// Every byte of it becomes a guard's.
  void scramble();

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr std::uint8_t guard_value = 0xa7;

  Arena* arena_;
  std::size_t bytes_;
  std::size_t rear_guard_bytes_;
  std::uint8_t* block_;
};

}  // namespace ec::test
