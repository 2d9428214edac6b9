// Memory for test chunks, by residence, so that one suite serves host, pinned and device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/region.hpp"

namespace ec::test {

/// Memory of one residence; the host touches its bytes only through upload, download and fill. Not thread
/// safe.
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
  /// Whether an allocation ends where an overrun is fatal, so that no guard bytes belong behind a chunk.
  virtual bool ends_at_edge() const { return false; }
  virtual void upload(std::uint8_t* to, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const std::uint8_t* from, std::size_t bytes) = 0;
  virtual void fill(std::uint8_t* to, std::uint8_t value, std::size_t bytes) = 0;
};

/// Ordinary memory whose last byte is followed directly by a page that nobody may touch: an overrun by one
/// byte ends the process. The misalignment asked for is the one thing it does not grant; the end decides.
std::unique_ptr<Arena> page_edge_arena();

/// Ordinary heap memory.
std::unique_ptr<Arena> pageable_arena();

/// One arena for every kind of memory that this build knows; those of a device that is missing are not available.
std::vector<Arena*> arenas();

/// Whether the arena has memory on this machine.
bool available(Arena& arena);

/// A chunk with guard bytes on both sides. Owns its memory; must not outlive the arena.
class GuardedChunk {
 public:
  GuardedChunk(Arena& arena, std::size_t bytes, unsigned misalignment);
  GuardedChunk(GuardedChunk&& other) noexcept;
  GuardedChunk& operator=(GuardedChunk&&) = delete;
  ~GuardedChunk();

  /// The first byte of the chunk, `misalignment` above a multiple of 256.
  std::uint8_t* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  kernels::Residence residence() const { return arena_->residence(); }
  kernels::Source source() const { return {data_, arena_->residence()}; }
  kernels::Target target() const { return {data_, arena_->residence()}; }

  void write(std::span<const std::uint8_t> content);
  std::vector<std::uint8_t> read() const;
  /// Whether every byte around the chunk is as it was laid.
  bool guards_intact() const;

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr std::uint8_t guard_value = 0xa7;

  Arena* arena_;
  std::size_t rear_guard_bytes_;
  std::uint8_t* block_;
  std::uint8_t* data_;
  std::size_t bytes_;
};

}  // namespace ec::test
