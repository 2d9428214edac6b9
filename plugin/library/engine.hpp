// A codec of either interface: a code, and its calls on chunks that were checked.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>

#include "ec/codec.hpp"
#include "gf/chunk_set.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/library/stripes.hpp"

namespace ec::library {

/// Where a call only enqueues its work, the stream (null is one too); where it waits for its result, none.
using Stream = std::optional<CUstream_st*>;

/// The numbers that a decode call was given.
class ChunkLists {
 public:
  /// Throws Refusal unless each number is below chunk_count, none is in a list twice, none is in both, and
  /// k of them are available.
  ChunkLists(std::span<const unsigned> available, std::span<const unsigned> wanted, unsigned k,
             unsigned chunk_count);

  const gf::ErasureSignature& signature() const { return signature_; }
  /// Where in its list a chunk stands that is in there.
  unsigned place_of(std::uint8_t chunk) const { return place_[chunk]; }

 private:
  gf::ChunkSet add(std::string_view name, std::span<const unsigned> chunks, unsigned chunk_count);

  gf::ErasureSignature signature_;
  std::array<std::uint8_t, gf::max_chunks + 1> place_;  ///< filled for the chunks of both lists
};

/// Immutable; any number of threads may use one at a time. Calls that do not succeed throw a Refusal, or
/// std::bad_alloc before anything is written.
class Engine {
 public:
  /// Reads the settings, and prepares the device where there is one. Throws SetupError, std::bad_alloc.
  Engine(Technique technique, unsigned k, unsigned m);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  unsigned k() const { return codec_.k(); }
  unsigned m() const { return codec_.m(); }
  Technique technique() const { return technique_; }

  /// stripes: data and coding chunks.
  void encode(const Stripes& stripes, const Stream& stream) const;
  /// stripes: the chunks of both lists, in their order.
  void decode(const ChunkLists& lists, const Stripes& stripes, const Stream& stream) const;
  /// Throws Refusal unless `chunk` is a data chunk.
  void check_data_chunk(unsigned chunk) const;
  /// stripes: the deltas of that data chunk, and the coding chunks.
  void update(unsigned chunk, const Stripes& stripes) const;

 private:
  void code(codec::Operation operation, const kernels::Program& program,
            std::span<const kernels::Source> sources, std::span<const kernels::Target> targets,
            const Stripes& stripes, const Stream& stream) const;
  const std::shared_ptr<const codec::Plan>& plan_for(const gf::ErasureSignature& signature,
                                                     std::shared_ptr<const codec::Plan>& held) const;
  bool keep(const std::shared_ptr<const codec::Plan>& plan) const;

  static constexpr std::size_t most_kept = 256;
  struct KnownPlan {
    gf::ErasureSignature signature;
    std::shared_ptr<const codec::Plan> plan;
  };

  Technique technique_;
  codec::Codec codec_;
  mutable std::array<std::atomic<const KnownPlan*>, 64> known_plans_{};
  mutable std::mutex kept_mutex_;
  mutable std::set<std::shared_ptr<const codec::Plan>> kept_;
};

}  // namespace ec::library
