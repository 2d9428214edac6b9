// Reed-Solomon erasure coding of chunks in ordinary, pinned or GPU memory: the C++ interface of libeccoder.
//
// k data chunks and the m coding chunks made from them form a stripe; all are equally long. Any k of the k +
// m give back the rest. Chunks are numbered 0..k-1 (data) and k..k+m-1 (coding). The bytes equal the bytes of
// Ceph's isa plugin for the same k, m and technique; so one coding chunk (m = 1) is the XOR of the data with
// either technique. Otherwise the matrices are Intel ISA-L's gf_gen_rs_matrix (reed_sol_van) and
// gf_gen_cauchy1_matrix (cauchy).
//
//   auto codec = ec::Codec::create(8, 3);
//   if (!codec) return complain(codec.error().text());
//   std::vector<ec::Source> data(file_parts.begin(), file_parts.end());     // 8 vectors of bytes
//   std::vector<ec::Target> coding(parity.begin(), parity.end());           // 3 of the same length
//   if (auto error = codec->encode(data, coding)) return complain(error.text());
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "ec/codec.hpp needs C++20; for C and older C++ there is ec/ec.h"
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ec/error.hpp"
#include "ec/export.h"

/// The target of CUstream and cudaStream_t.
struct CUstream_st;

namespace ec {

namespace library {
class Accumulator;
class Engine;
}  // namespace library

/// reed_sol_van: a Vandermonde matrix, in the shapes where any k chunks suffice (m <= 3, or m = 4 with k <=
/// 21, or k <= 3, or k = 4 with m <= 21, or k = 5 with m <= 5). cauchy: any shape.
/// matrix: the technique of a codec with a matrix of the caller's; create() refuses it.
enum class Technique : std::uint8_t { reed_sol_van = 0, cauchy = 1, matrix = 255 };

/// mds: only a matrix by which any k chunks give back the rest (maximum distance separable). any: other
/// matrices too, for example of locally repairable codes.
enum class MatrixKind : std::uint8_t { mds = 0, any = 1 };

/// Whether any k chunks of a codec give back the rest. sampled: in 20,000 losses of m chunks none was found
/// that cannot be solved, and there are too many to try them all.
enum class Mds : std::uint8_t { no = 0, sampled = 1, yes = 2 };

/// The result of verify(). agree: all chunks of all stripes agree. Otherwise stripe and byte (both from 0)
/// are the first place where they do not, and `chunk` is the one chunk of this stripe that alone is wrong:
/// the others agree without it. `chunk` is empty where it cannot be found: one chunk only is left over, or
/// several are wrong. As many wrong chunks as are left over, or more, may look like another one.
struct Verdict {
  bool agree = true;
  std::size_t stripe = 0, byte = 0;
  std::optional<unsigned> chunk;
};

/// The answer of verify_async() where all chunks agree.
inline constexpr std::uint64_t no_difference = ~std::uint64_t{0};

/// Where bytes lie. The caller says so and must be right: device memory called pageable is touched by the
/// CPU, ordinary memory called pinned makes the device fail. pageable: ordinary memory. pinned: page-locked
/// memory that the GPU can address (cuMemHostAlloc, cuMemHostRegister, cudaHostAlloc). device: memory of a
/// GPU that EC_CUDA_DEVICES names (cuMemAlloc, cudaMalloc), one for all chunks of a call. Values are stable;
/// others may be added.
enum class Residence : std::uint8_t { pageable = 0, pinned = 1, device = 2 };

/// char, std::byte, std::uint8_t and their like.
template <class T>
concept ByteSized = sizeof(T) == 1 && std::is_trivially_copyable_v<T>;

/// A range that can be a chunk by itself: vectors, arrays, spans and strings of bytes, but no temporaries of
/// them.
template <class R>
concept ByteRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && ByteSized<std::ranges::range_value_t<R>>;

template <class R>
concept WritableByteRange =
    ByteRange<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// A chunk that is written. A view: owns nothing. Any alignment. For memory of other types see
/// std::as_writable_bytes.
struct Target {
  Target() = default;
  Target(void* data, std::size_t size, Residence where = Residence::pageable) noexcept
      : bytes(static_cast<std::byte*>(data), size), residence(where) {}
  template <WritableByteRange R>
  Target(R&& range, Residence where = Residence::pageable) noexcept  // NOLINT: a chunk is its bytes
      : Target(static_cast<void*>(std::ranges::data(range)), std::ranges::size(range), where) {}

  std::span<std::byte> bytes;
  Residence residence = Residence::pageable;
};

/// A chunk that is read. A view: owns nothing. Any alignment. For memory of other types see std::as_bytes.
struct Source {
  Source() = default;
  Source(const void* data, std::size_t size, Residence where = Residence::pageable) noexcept
      : bytes(static_cast<const std::byte*>(data), size), residence(where) {}
  template <ByteRange R>
  Source(R&& range, Residence where = Residence::pageable) noexcept  // NOLINT: a chunk is its bytes
      : Source(static_cast<const void*>(std::ranges::data(range)), std::ranges::size(range), where) {}
  Source(const Target& target) noexcept  // NOLINT: a written chunk can be read
      : bytes(target.bytes), residence(target.residence) {}

  std::span<const std::byte> bytes;
  Residence residence = Residence::pageable;
};

/// Chunks that are made while others come one by one, see Codec::begin. For one thread at a time; copies
/// share everything.
class Accumulator {
 public:
  /// Adds chunk `chunk`, an available chunk that was not added before: for n stripes n chunks, as long as the
  /// targets, which are read and written. Their memory is free when the call returns. Errors: as every call
  /// of Codec; after busy, device_fault and device_hung no more chunks can be added.
  ECCODER_EXPORT Error add(unsigned chunk, std::span<const Source> chunks) const noexcept;
  /// add() on a CUDA stream, by the rules of Codec::encode_async: all chunks of one accumulator on the same
  /// stream, or on streams that wait for each other. The first add and other adds may be captured.
  ECCODER_EXPORT Error add_async(unsigned chunk, std::span<const Source> chunks,
                                 CUstream_st* stream) const noexcept;
  /// Whether the targets hold the wanted chunks, on streams when these have come that far. Errors:
  /// too_few_chunks, with the numbers of the chunks that must still be added; invalid_argument after an add
  /// that ended with busy, device_fault or device_hung. After an error the targets hold anything.
  ECCODER_EXPORT Error end() const noexcept;

  // Never empty: a moved-from object is copied.
  Accumulator(const Accumulator&) noexcept = default;
  Accumulator& operator=(const Accumulator&) noexcept = default;
  ~Accumulator() = default;

 private:
  friend class Codec;
  explicit Accumulator(std::shared_ptr<library::Accumulator> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<library::Accumulator> state_;
};

/// One code, ready to work. Immutable, so that any number of threads may use one at a time; copies are cheap
/// and share everything.
///
/// encode, decode and update are synchronous: when they return, the targets hold the result. They take one
/// stripe or many: arrays of chunks are stripe after stripe, and their length says how many stripes there
/// are. No stripe, or chunks of no bytes, are nothing to do. Chunks of one call are equally long, and may
/// differ in residence. Within a stripe a target overlaps no other chunk (checked); nor may it overlap a
/// chunk of another stripe of the call (not checked). Sources may be one and the same memory, for example
/// zeros that stand for padding.
///
/// Chunks in host memory are always coded, by the CPU when the GPU cannot. A call with a chunk in device
/// memory needs the device; the first one waits while the device comes up (a fraction of a second). CUDA does
/// not survive fork(): in a child, device memory gets no_device. Calls wait for the device's default stream
/// and for no other: work of other streams on pinned and device chunks must be complete.
///
/// Errors of every call: invalid_argument and out_of_memory, before anything is written. With chunks in
/// device memory also no_device, busy, device_fault; with device or pinned chunks device_hung. After busy,
/// device_fault or device_hung the targets hold anything, targets of update too: encode their stripes anew.
/// After device_hung keep the call's pinned and device targets allocated and unused until the process ends.
class Codec {
 public:
  /// k >= 2, m >= 1, k + m <= 255. Reads the EC_CUDA_ variables when the process creates its first codec.
  /// Touches no device. Errors: invalid_argument (shape, technique, a wrong or unknown EC_CUDA_ variable),
  /// out_of_memory.
  [[nodiscard]] ECCODER_EXPORT static Result<Codec> create(
      unsigned k, unsigned m, Technique technique = Technique::reed_sol_van) noexcept;

  /// A code by a coding matrix of the caller's, for example another system's: k, m >= 1, k + m <= 255, and
  /// m x k cells, row by row; cell (r, c) is the factor of data chunk c in coding chunk r, in GF(2^8) modulo
  /// x^8 + x^4 + x^3 + x^2 + 1 (0x11d). The cells are copied. Matrices of Reed-Solomon codes are known to be
  /// MDS by their structure (Roth and Seroussi 1985), others of at most 100,000 losses of m chunks by trying
  /// each; of all others a sample is tried (some seconds for the widest codes). A matrix found not to be
  /// MDS is refused unless `kind` is any. Then decode() makes all it can of the available chunks, which
  /// may be fewer than k, and names the wanted chunks that it cannot make. Errors: as create() above.
  [[nodiscard]] ECCODER_EXPORT static Result<Codec> create(unsigned k, unsigned m,
                                                           std::span<const std::uint8_t> coding,
                                                           MatrixKind kind = MatrixKind::mds) noexcept;

  // Never empty: a moved-from object is copied.
  Codec(const Codec&) noexcept = default;
  Codec& operator=(const Codec&) noexcept = default;
  ~Codec() = default;

  ECCODER_EXPORT unsigned k() const noexcept;
  ECCODER_EXPORT unsigned m() const noexcept;
  ECCODER_EXPORT Technique technique() const noexcept;
  ECCODER_EXPORT Mds mds() const noexcept;

  /// Makes the coding chunks. For n stripes, data has n x k chunks and coding n x m.
  ECCODER_EXPORT Error encode(std::span<const Source> data, std::span<const Target> coding) const noexcept;

  /// Makes the chunks `wanted` from the chunks `available`, data or coding, in one pass. Both lists hold
  /// numbers of chunks, in any order, none twice and none in both; at least k are available (k of them are
  /// read; with a matrix that is not MDS, enough of them). For n stripes, which all lost the same, sources
  /// has n x available.size() chunks, in the order of `available`, and targets n x wanted.size(), in the
  /// order of `wanted`. Error besides the common ones: too_few_chunks.
  ECCODER_EXPORT Error decode(std::span<const unsigned> available, std::span<const Source> sources,
                              std::span<const unsigned> wanted,
                              std::span<const Target> targets) const noexcept;

  /// Whether the chunks of each stripe agree as encode() makes them; writes nothing. `available` and
  /// `sources` are as for decode(); more chunks than are needed, k + 1 or up to all, or there is nothing to
  /// compare. Ends with the first stripe that disagrees. In one pass: by the CPU, or by the device where some
  /// chunk is in its memory. Errors besides the common ones: too_few_chunks.
  ECCODER_EXPORT Result<Verdict> verify(std::span<const unsigned> available,
                                        std::span<const Source> sources) const noexcept;

  /// decode() that first verifies the available chunks, where they are more than are needed. Errors: as
  /// decode(), and chunks_disagree, before anything is written; its text has the result of verify().
  ECCODER_EXPORT Error checked_decode(std::span<const unsigned> available, std::span<const Source> sources,
                                      std::span<const unsigned> wanted,
                                      std::span<const Target> targets) const noexcept;

  /// Makes the chunks `wanted` while the chunks `available` come, in any order: begin, add each, end. Lists
  /// and targets are as for decode(); with the data chunks as `available` and coding chunks as `wanted` this
  /// is encode(). `available` are the chunks that will be added; chunks that decode() would not read may be
  /// left out. The first one added overwrites the targets, each further one reads and writes them; no other
  /// code may touch them until the end. They live as long as the accumulator is used; the arrays of views
  /// need not. An accumulator keeps its share of this codec. Errors: invalid_argument, too_few_chunks,
  /// out_of_memory.
  ECCODER_EXPORT Result<Accumulator> begin(std::span<const unsigned> available,
                                           std::span<const unsigned> wanted,
                                           std::span<const Target> targets) const noexcept;

  /// Brings the coding chunks up to date after a change of data chunk `chunk` (< k), without reading the
  /// other data: delta is its old content XOR its new content. For n stripes, delta has n chunks and coding n
  /// x m, which are read and written.
  ECCODER_EXPORT Error update(unsigned chunk, std::span<const Source> delta,
                              std::span<const Target> coding) const noexcept;

  /// encode and decode on a CUDA stream: they enqueue the work and return. The targets hold the result, and
  /// errors of the device show, when the stream has come that far. `stream` is one of the device, with the
  /// CUDA runtime or the driver, or a default stream; ec_encode_async (ec/ec.h) says of which GPU, and when a
  /// call waits for the stream. It may be captured into a graph, which then takes a launch for each stripe.
  /// All chunks are pinned or in device memory. They, and a copy of this codec, live until the work is done,
  /// or until the graph is destroyed; the arrays of views need not. The GPU alone can do this: on an error
  /// the caller repeats the work. Errors: as above, without busy and device_hung; after device_fault part of
  /// the work may be enqueued, and has stopped writing when the stream is done; after other errors nothing is
  /// enqueued. A first call brings the GPU up: make one before capturing.
  ECCODER_EXPORT Error encode_async(std::span<const Source> data, std::span<const Target> coding,
                                    CUstream_st* stream) const noexcept;
  ECCODER_EXPORT Error decode_async(std::span<const unsigned> available, std::span<const Source> sources,
                                    std::span<const unsigned> wanted, std::span<const Target> targets,
                                    CUstream_st* stream) const noexcept;
  /// verify on a stream, by the same rules. The answer is *difference, a word in device memory, when the
  /// stream has come that far: no_difference if all chunks of all stripes agree, else stripe * length of a
  /// chunk + byte of the first place at which they do not. The word counts as a chunk where the GPU is
  /// chosen. verify() of this stripe names the wrong chunk. No stripe, and empty chunks, are an
  /// invalid_argument; too_few_chunks is as for verify().
  ECCODER_EXPORT Error verify_async(std::span<const unsigned> available, std::span<const Source> sources,
                                    std::uint64_t* difference, CUstream_st* stream) const noexcept;

 private:
  explicit Codec(std::shared_ptr<const library::Engine> engine) noexcept : engine_(std::move(engine)) {}

  std::shared_ptr<const library::Engine> engine_;
};

/// The coding matrix by which another system makes its parity, as create() takes it: m x k cells. dialect: a
/// name that ec_coding_matrix (ec/ec.h) lists. k, m >= 1, k + m <= 255. The matrix of isal_reed_sol_van is
/// not MDS in every shape; create() says so. Any thread may call this at any time. Errors: invalid_argument,
/// out_of_memory.
ECCODER_EXPORT Result<std::vector<std::uint8_t>> coding_matrix(std::string_view dialect, unsigned k,
                                                               unsigned m) noexcept;

/// The version of the library that is running, "0.3.0" or, before its release, "0.3.0~dev".
ECCODER_EXPORT const char* version() noexcept;

}  // namespace ec
