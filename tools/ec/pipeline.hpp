// Threads that take stripes, or other pieces of work, in order, each with a buffer of its own: while one
// reads, others code and write. A stripe stays in the cache of one core from its reading to its writing, and
// the buffers are all the memory that is used.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>

#include "tools/ec/format.hpp"

namespace ec::file {

/// The records of one stripe in a buffer: block, sums (where the files are kept), checksum. A data shard that
/// has no records has a block alone; its checksum is among the sums, which all records hold.
class Stripe {
 public:
  static std::size_t buffer_bytes(const SetHeader& set) {
    return set.shards() * stride(set) + set.sums_bytes();
  }

  Stripe(const SetHeader& set, std::byte* buffer, std::uint64_t number_)
      : number(number_), set_(set), buffer_(buffer) {}

  const std::uint64_t number;

  std::span<std::byte> record(unsigned shard) const {
    return {buffer_ + shard * stride(set_), set_.record_bytes};
  }
  std::span<std::byte> block(unsigned shard) const { return record(shard).first(set_.block_bytes()); }
  /// The checksum that is in the record or among the sums; is_sound says whether it is right.
  Checksum checksum(unsigned shard) const;
  /// Puts the right checksum in its place; in a coding shard's record it puts the sums before that.
  void seal(unsigned shard) const;
  bool is_sound(unsigned shard) const;
  /// Takes the sums from the record of a coding shard.
  void take_sums(unsigned shard) const;

 private:
  std::span<std::byte> sums() const { return {buffer_ + set_.shards() * stride(set_), set_.sums_bytes()}; }
  std::span<std::byte> sums_in(unsigned shard) const {
    return record(shard).subspan(set_.block_bytes(), set_.sums_bytes());
  }
  bool has_record(unsigned shard) const { return shard >= set_.first_shard_file(); }
  std::span<std::byte> place_of_checksum(unsigned shard) const;
  Checksum right_checksum(unsigned shard) const;
  /// Records of a power of two bytes would all begin in the same set of a cache.
  static std::size_t stride(const SetHeader& set) { return set.record_bytes + 64; }

  const SetHeader& set_;
  std::byte* buffer_;
};

class Pipeline {
 public:
  /// Gets the number of a piece of work, and a buffer.
  using PieceFunction = std::function<void(std::uint64_t, std::byte*)>;

  /// threads 0: as many as there are cores. `is_shown`: if stderr is a terminal, it says how far the work is,
  /// of so many bytes, or 0 if that is not known.
  Pipeline(unsigned threads, std::string what, std::uint64_t bytes, bool is_shown);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// Calls `work` for pieces 0, 1, .. in several threads, each with a buffer of so many bytes; ends after
  /// piece `pieces` - 1 or by end_at. Throws what the first of them throws, when all have returned.
  void run(std::uint64_t pieces, std::size_t buffer_bytes, const PieceFunction& work);
  /// The same by stripes.
  void run(const SetHeader& set, std::uint64_t stripes, const std::function<void(const Stripe&)>& work);

  /// For use in `work` by pieces: so many bytes more are done with.
  void add(std::uint64_t bytes) { done_.fetch_add(bytes, std::memory_order_relaxed); }
  /// For use in `work`, once for each stripe: calls `part` when the parts of all stripes before have
  /// returned.
  void in_turn(std::uint64_t stripe, const std::function<void()>& part);
  /// For use in `work`: there is no such stripe, and none after it.
  void end_at(std::uint64_t stripe);

 private:
  void draw() const;

  const unsigned threads_;
  const std::string what_;
  const std::uint64_t bytes_;
  const bool is_shown_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;  ///< stripe that nobody has begun
  std::uint64_t end_ = 0;   ///< what next_ does not pass
  std::uint64_t turn_ = 0;  ///< stripe whose part comes next
  unsigned running_ = 0;    ///< threads
  std::exception_ptr error_;
};

}  // namespace ec::file
