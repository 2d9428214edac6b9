// A codec of either interface: a code, and its calls on checked chunks.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ec/codec.hpp"
#include "gf/chunk_set.hpp"
#include "gf/matrix.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/stripes.hpp"

namespace ec::library {

/// The stream (null is one too) of a call that only enqueues its work; nothing for a call that waits.
using Stream = std::optional<CUstream_st*>;

/// The request of a decode call: checked lists of chunk numbers, and the plan for them.
struct Decoding {
  /// Throws Refusal unless each number is below k + m, no number is in a list twice or in both lists, and the
  /// available chunks give the wanted ones, for which an MDS code needs k of them; std::bad_alloc.
  Decoding(const codec::Codec& codec, bool is_mds, std::span<const unsigned> available,
           std::span<const unsigned> wanted);

  std::vector<unsigned> available, wanted;
  /// The place in its list of each chunk that the plan reads or makes, in the plan's order.
  std::vector<std::uint8_t> source_places, target_places;
  bool as_given;  ///< whether the plan uses all chunks of the lists, in their order
  std::shared_ptr<const codec::Plan> plan;
};

/// The answer to a call that ended with this status; not ok. Waits for a device that is coming up again.
[[gnu::cold]] Failure failure_of(kernels::Status status) noexcept;

/// The m x k matrix of these cells, row by row. Throws Refusal for an impossible shape and for null;
/// std::bad_alloc.
gf::Matrix matrix_of(unsigned k, unsigned m, const std::uint8_t* cells);

/// The matrix of a dialect. Throws Refusal for an unknown name or an impossible shape; std::bad_alloc.
gf::Matrix dialect_matrix(std::string_view dialect, unsigned k, unsigned m);

/// A job for each of `count` stripes, whose chunks come stripe after stripe; the views must outlive it.
std::vector<kernels::Job> jobs_of(const kernels::Program& program, std::span<const kernels::Source> sources,
                                  std::span<const kernels::Target> targets, std::size_t count,
                                  std::size_t bytes);

/// Waits for the device, for chunks in its memory or, where there is a stream, for work on it; throws Refusal
/// where there is none.
void need_device(Stream stream);

/// Immutable; any number of threads may use one at a time. Calls answer as codec::Router does. Before
/// anything is written or enqueued they may throw a Refusal or std::bad_alloc, afterwards nothing: then the
/// answer is a status, which no want of memory changes.
class Engine {
 public:
  /// Reads the settings, and touches no device. Throws SetupError, std::bad_alloc.
  Engine(Technique technique, unsigned k, unsigned m);
  /// A code by a coding matrix. Throws Refusal too, for a matrix that is not MDS unless it may be any.
  Engine(const gf::Matrix& coding, MatrixKind kind);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  unsigned k() const { return codec_.k(); }
  unsigned m() const { return codec_.m(); }
  Technique technique() const { return technique_; }
  Mds mds() const { return mds_; }

  /// stripes: data and coding chunks.
  kernels::Status encode(const Stripes& stripes, Stream stream) const;
  /// Does a job of one stripe that is quickly seen to be right, with all chunks in host memory: most small
  /// calls. Nothing for any other job: then the checks of Stripes give the answer.
  [[gnu::always_inline]] inline std::optional<kernels::Status> code_at_once(codec::Operation operation,
                                                                            const kernels::Job& job) const {
    if (job.sources.data() == nullptr || job.targets.data() == nullptr || job.targets.empty() ||
        job.bytes - 1 >= max_chunk_bytes)
      return std::nullopt;
    const ChunkFacts seen = look(job.sources, job.targets, job.bytes);
    if (!seen.apart || seen.residences >= static_cast<unsigned>(kernels::Residence::device))
      return std::nullopt;
    return codec_.router().transform(job, operation, seen.residences == 0);
  }
  const kernels::Program& encode_program() const { return codec_.code().encode_program(); }
  /// Throws as Decoding does. The answer is the engine's own, or `made`.
  const Decoding& decoding(std::span<const unsigned> available, std::span<const unsigned> wanted,
                           std::unique_ptr<const Decoding>& made) const;
  /// Throws as decoding() does for this list where no chunk is wanted.
  void check_available(std::span<const unsigned> available) const {
    std::unique_ptr<const Decoding> made;
    decoding(available, {}, made);
  }
  /// stripes: the chunks of both lists, in their order.
  kernels::Status decode(const Decoding& decoding, const Stripes& stripes, Stream stream) const;
  /// Whether the chunks agree, of which `available`, a list that decoding() was given, has the numbers.
  /// refuse_nothing: throws Refusal where none follows from the others.
  kernels::Status verify(std::span<const unsigned> available, const Stripes& stripes, Verdict& verdict,
                         bool refuse_nothing = true) const;
  /// verify() on a stream: *difference, a word of device memory, becomes no_difference, or the least stripe *
  /// bytes + byte at which the chunks disagree. Throws Refusal also where chunks have no byte.
  kernels::Status verify_on(std::span<const unsigned> available, const Stripes& stripes,
                            std::uint64_t* difference, Stream stream) const;
  /// verify() where some chunk follows from the others, and then decode(). Throws Refusal where they
  /// disagree.
  kernels::Status checked_decode(const Decoding& decoding, std::span<const unsigned> available,
                                 const Stripes& stripes) const;
  /// Adds the part of one chunk, column `column` of the plan, to the wanted chunks; the first part overwrites
  /// them. stripes: this chunk, and the wanted chunks in their order.
  kernels::Status add(const Decoding& decoding, unsigned column, bool first, const Stripes& stripes,
                      Stream stream) const;
  /// stripes: the deltas of this data chunk, and the coding chunks. Throws Refusal unless it is a data chunk.
  kernels::Status update(unsigned chunk, const Stripes& stripes) const;

 private:
  kernels::Status code(codec::Operation operation, const kernels::Program& program,
                       std::span<const kernels::Source> sources, std::span<const kernels::Target> targets,
                       const Stripes& stripes, Stream stream) const;

  Technique technique_;
  Mds mds_ = Mds::yes;
  codec::Codec codec_;
  mutable std::array<std::atomic<const Decoding*>, 64> known_{};
};

/// Chunks of some stripes that are made while others come one by one. For one thread at a time.
class Accumulator {
 public:
  /// Throws as Decoding does. into: no sources, and the wanted chunks as targets.
  Accumulator(std::shared_ptr<const Engine> engine, std::span<const unsigned> available,
              std::span<const unsigned> wanted, const Stripes& into);
  std::size_t stripes() const { return form_.stripes; }
  std::size_t bytes() const { return form_.bytes; }
  /// chunks: this chunk of each stripe. Throws as Stripes does, and Refusal unless the chunk is one that is
  /// still to come. After a failure there is no more to add.
  kernels::Status add(unsigned chunk, const kernels::Source* chunks, Stream stream);
  /// Throws Refusal unless all came that are read.
  void end() const;

 private:
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<const Decoding> made_;
  const Decoding& decoding_;
  StripeShape form_;
  std::vector<kernels::Target> targets_;
  gf::ChunkSet available_, awaited_, read_;
  std::optional<unsigned> failed_;
};

}  // namespace ec::library
