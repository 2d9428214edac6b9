/*
 * Reed-Solomon erasure coding of chunks in ordinary, pinned or GPU memory: the C interface of libeccoder.
 *
 * k data chunks and the m coding chunks made from them form a stripe; all are equally long. Any k of the k +
 * m give back the rest. Chunks are numbered 0..k-1 (data) and k..k+m-1 (coding). The bytes equal the bytes of
 * Ceph's isa plugin for the same k, m and technique; so one coding chunk (m = 1) is the XOR of the data with
 * either technique. Otherwise the matrices are Intel ISA-L's gf_gen_rs_matrix (reed_sol_van) and
 * gf_gen_cauchy1_matrix (cauchy).
 *
 * Calls return 0 or a negative errno. After an error of ec_end the targets hold anything.
 *   -EINVAL     a wrong argument, or a wrong EC_CUDA_ variable; nothing was written
 *   -ENOMEM     out of memory; nothing was written, and nothing is enqueued
 *   -ENODATA    fewer than k chunks are available, or, by a matrix that is not MDS, chunks that do not give
 *               the wanted ones; nothing was written
 *   -EBADMSG    ec_checked_decode alone: the chunks available disagree; nothing was written
 *   -ENODEV     chunks in device memory, or a stream, and no device that takes them; nothing was written
 *   -EBUSY      chunks in device memory, and no room: too many calls at once, or too little staging memory
 *   -EIO        the device failed on chunks in its memory, and has stopped writing
 *   -ETIMEDOUT  the device stopped answering: pinned or device targets may yet be written
 * and ec_error_text() says why. After -EBUSY, -EIO and -ETIMEDOUT the targets hold anything, after ec_update
 * too: encode their stripes anew; after -ETIMEDOUT keep the call's pinned and device targets allocated and
 * unused until the process ends. Once the device has work of a call that writes, no answer depends on
 * memory: a failure is never called -ENOMEM, and bytes that may still change are never called done. Chunks in
 * host memory are always coded, by the CPU when the GPU cannot.
 *
 * A call takes at most 32 KiB of stack, a driver of a GPU aside, and a thread's own variables. It is no
 * cancellation point: pthread_cancel() of a thread in a call takes effect after it. Asynchronous cancellation
 * (PTHREAD_CANCEL_ASYNCHRONOUS) is not allowed in calls.
 */
#ifndef EC_EC_H
#define EC_EC_H

#include <stddef.h>
#include <stdint.h>

#include "ec/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* EC_REED_SOL_VAN: a Vandermonde matrix, in the shapes where any k chunks suffice (m <= 3, or m = 4 with k <=
 * 21, or k <= 3, or k = 4 with m <= 21, or k = 5 with m <= 5). EC_CAUCHY: any shape. */
typedef int ec_technique;
enum { EC_REED_SOL_VAN = 0, EC_CAUCHY = 1 };

/* Where bytes lie. The caller says so and must be right: device memory called pageable is touched by the CPU,
 * ordinary memory called pinned makes the device fail.
 * EC_PAGEABLE: ordinary memory. EC_PINNED: page-locked memory that the GPU can address (cuMemHostAlloc,
 * cuMemHostRegister, cudaHostAlloc). EC_DEVICE: memory of a GPU that EC_CUDA_DEVICES names (cuMemAlloc,
 * cudaMalloc), one for all chunks of a call. Others may be added. */
typedef int ec_residence;
enum { EC_PAGEABLE = 0, EC_PINNED = 1, EC_DEVICE = 2 };

/* A chunk that is read, and one that is written. Views: they own nothing. Any alignment. data may be null
 * only in a call with chunk_bytes = 0. */
typedef struct ec_source {
  const void* data;
  ec_residence residence;
} ec_source;
typedef struct ec_target {
  void* data;
  ec_residence residence;
} ec_target;

/* One code, ready to work. Immutable, so that any number of threads may use one at a time. */
typedef struct ec_codec ec_codec;

/* Puts a new codec into *codec, which the caller destroys; on an error *codec becomes null. k >= 2, m >= 1,
 * k + m <= 255. Reads the EC_CUDA_ variables when the process creates its first codec. Touches no device.
 * -EINVAL, -ENOMEM. */
ECCODER_EXPORT int ec_codec_create(unsigned k, unsigned m, ec_technique technique, ec_codec** codec);
/* A code by a coding matrix of the caller's, for example another system's: k, m >= 1, k + m <= 255, and m x k
 * cells, row by row; cell (r, c) is the factor of data chunk c in coding chunk r, in GF(2^8) modulo x^8 + x^4
 * + x^3 + x^2 + 1 (0x11d). The cells are copied. Matrices of Reed-Solomon codes are known by their structure
 * (Roth and Seroussi 1985) to be MDS (any k chunks give back the rest), others of at most 100,000 losses of m
 * chunks by trying each; of all others a sample is tried (some seconds for the widest codes). A matrix found
 * not to be MDS is refused unless flags is EC_ANY_MATRIX. Then ec_decode makes all it can of the
 * available chunks, which may be fewer than k, and names the wanted chunks that it cannot make (-ENODATA).
 * flags: 0 or EC_ANY_MATRIX. Otherwise as ec_codec_create. -EINVAL, -ENOMEM. */
enum { EC_ANY_MATRIX = 1 };
ECCODER_EXPORT int ec_codec_create_matrix(unsigned k, unsigned m, const unsigned char* coding, unsigned flags,
                                          ec_codec** codec);
/* The coding matrix by which another system makes its parity, into coding: m x k bytes of the caller's.
 * dialect: "isal_reed_sol_van", "isal_cauchy" (ISA-L's gf_gen_rs_matrix and gf_gen_cauchy1_matrix; the latter
 * is also the matrix of HDFS, Ozone and DAOS), "jerasure_reed_sol_van", "jerasure_reed_sol_r6_op" (m = 2),
 * "zfec" (Tahoe-LAFS), "klauspost" (Backblaze, klauspost/reedsolomon), "klauspost_cauchy" (its
 * WithCauchyMatrix). k, m >= 1, k + m <= 255. Whether the matrix is MDS is for ec_codec_create_matrix to say:
 * isal_reed_sol_van is not in every shape. Any thread may call this at any time. -EINVAL, -ENOMEM. */
ECCODER_EXPORT int ec_coding_matrix(const char* dialect, unsigned k, unsigned m, unsigned char* coding);

/* Null is allowed. No call with this codec may be running. */
ECCODER_EXPORT void ec_codec_destroy(ec_codec* codec);

/* 0 for null. */
ECCODER_EXPORT unsigned ec_codec_k(const ec_codec* codec);
ECCODER_EXPORT unsigned ec_codec_m(const ec_codec* codec);
/* Whether any k chunks give back the rest. EC_MDS_SAMPLED: in 20,000 losses of m chunks none was found that
 * cannot be solved, and there are too many to try them all. EC_NOT_MDS for null. */
enum { EC_NOT_MDS = 0, EC_MDS_SAMPLED = 1, EC_MDS = 2 };
ECCODER_EXPORT int ec_codec_mds(const ec_codec* codec);

/* The five calls that follow are synchronous and take one stripe or many: arrays of chunks are stripe after
 * stripe. Every chunk has chunk_bytes bytes; they may differ in residence. No stripe, or chunk_bytes = 0, is
 * nothing to do. Within a stripe a target overlaps no other chunk (checked); nor may it overlap a chunk of
 * another stripe of the call (not checked). Sources may be one and the same memory. A call with a chunk in
 * device memory needs the device; the first one waits while the device comes up. In a child of fork() there
 * is none. Calls wait for the device's default stream and for no other: work of other streams on pinned and
 * device chunks must be complete. */

/* Makes the coding chunks. data: stripes x k; coding: stripes x m. */
ECCODER_EXPORT int ec_encode(const ec_codec* codec, size_t stripes, const ec_source* data,
                             const ec_target* coding, size_t chunk_bytes);

/* Makes the chunks `wanted` from the chunks `available`, data or coding, in one pass. Both lists hold numbers
 * of chunks, in any order, none twice and none in both; at least k are available (k of them are read; with
 * a matrix that is not MDS, enough of them). All stripes lost the same. sources: stripes x available_count,
 * in the order of `available`; targets: stripes x wanted_count, in the order of `wanted`. Also -ENODATA. */
ECCODER_EXPORT int ec_decode(const ec_codec* codec, size_t stripes, const unsigned* available,
                             size_t available_count, const ec_source* sources, const unsigned* wanted,
                             size_t wanted_count, const ec_target* targets, size_t chunk_bytes);

/* The result of ec_verify. agree: 1 if all chunks of all stripes agree; then the rest is 0, and chunk -1.
 * Otherwise stripe and byte (both from 0) are the first place where they do not, and chunk is the one chunk
 * of this stripe that alone is wrong: the others agree without it. chunk is -1 where it cannot be found: one
 * chunk only is left over, or several are wrong. As many wrong chunks as are left over, or more, may look
 * like another one. */
typedef struct ec_verdict {
  int agree;
  int chunk;
  size_t stripe;
  size_t byte;
} ec_verdict;

/* Whether the chunks of each stripe agree as ec_encode makes them, into *verdict of the caller; writes
 * nothing else. available, sources: as for ec_decode; more chunks than are needed, k + 1 or up to all, or
 * there is nothing to compare (-ENODATA). Ends with the first stripe that disagrees, and returns 0 then too.
 * In one pass: by the CPU, or by the device where some chunk is in its memory. */
ECCODER_EXPORT int ec_verify(const ec_codec* codec, size_t stripes, const unsigned* available,
                             size_t available_count, const ec_source* sources, size_t chunk_bytes,
                             ec_verdict* verdict);

/* ec_decode that first verifies the available chunks, where they are more than are needed. Also -EBADMSG;
 * ec_error_text() has the result of ec_verify. */
ECCODER_EXPORT int ec_checked_decode(const ec_codec* codec, size_t stripes, const unsigned* available,
                                     size_t available_count, const ec_source* sources, const unsigned* wanted,
                                     size_t wanted_count, const ec_target* targets, size_t chunk_bytes);

/* Makes chunks while others come, in any order: ec_begin, ec_add of each, ec_end. ec_begin takes the lists
 * and targets of ec_decode, and makes *accumulator (null on an error), which ec_end destroys. With the
 * data chunks as `available` and coding chunks as `wanted` this is ec_encode. `available` are the chunks that
 * will be added; chunks that ec_decode would not read may be left out. The codec and the targets live until
 * ec_end, the arrays need not. An accumulator is for one thread at a time. -EINVAL, -ENOMEM, -ENODATA. */
typedef struct ec_accumulator ec_accumulator;
ECCODER_EXPORT int ec_begin(const ec_codec* codec, size_t stripes, const unsigned* available,
                            size_t available_count, const unsigned* wanted, size_t wanted_count,
                            const ec_target* targets, size_t chunk_bytes, ec_accumulator** accumulator);
/* Adds chunk `chunk`, an available chunk that was not added before (-EINVAL). chunks: this chunk of each
 * stripe; free again when the call returns. The first one added overwrites the targets, each further one
 * reads and writes them; no other code may touch them until ec_end. After -EBUSY, -EIO and -ETIMEDOUT no more
 * chunks can be added. */
ECCODER_EXPORT int ec_add(ec_accumulator* accumulator, unsigned chunk, const ec_source* chunks);
/* Destroys *accumulator, null included. 0: the targets hold the wanted chunks. -ENODATA: chunks that are read
 * have not come, and ec_error_text() names them. -EINVAL: an ec_add answered -EBUSY, -EIO or -ETIMEDOUT.
 * Then the targets hold anything. */
ECCODER_EXPORT int ec_end(ec_accumulator* accumulator);

/* Brings the coding chunks up to date after a change of data chunk `chunk` (< k), without reading the other
 * data: delta is its old content XOR its new content. delta: stripes chunks; coding: stripes x m, read and
 * written. */
ECCODER_EXPORT int ec_update(const ec_codec* codec, size_t stripes, unsigned chunk, const ec_source* delta,
                             const ec_target* coding, size_t chunk_bytes);

/* ec_encode and ec_decode on a CUDA stream (a CUstream or cudaStream_t of the device): they enqueue the work
 * and return; the targets hold the result, and errors of the device show, when the stream has come that far.
 * A default stream (null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) belongs to the GPU in whose memory chunks
 * lie, or else to the first of EC_CUDA_DEVICES, whatever context is current. A call may wait for the stream
 * if it has more than 131,072 chunks, because the driver copies their addresses, or if more than some 400
 * launches are on the stream: a code without a kernel of its own takes one for each stripe, at least. The
 * stream may be captured into a graph, which then takes a launch for each stripe. All chunks are pinned or in
 * device memory; they and the codec live until the work is done, or until the graph is destroyed. The GPU
 * alone can do this: on an error the caller repeats the work. -EINVAL, -ENOMEM, -ENODATA, -ENODEV: nothing is
 * enqueued. -EIO: part of the work may be; it has stopped writing when the stream is done. A first call
 * brings the GPU up: make one before capturing. */
struct CUstream_st;
ECCODER_EXPORT int ec_encode_async(const ec_codec* codec, size_t stripes, const ec_source* data,
                                   const ec_target* coding, size_t chunk_bytes, struct CUstream_st* stream);
ECCODER_EXPORT int ec_decode_async(const ec_codec* codec, size_t stripes, const unsigned* available,
                                   size_t available_count, const ec_source* sources, const unsigned* wanted,
                                   size_t wanted_count, const ec_target* targets, size_t chunk_bytes,
                                   struct CUstream_st* stream);

/* ec_verify on a stream, by the rules of ec_encode_async. The answer is *difference, a word of 8 bytes in
 * device memory, aligned to 8, when the stream has come that far: EC_NO_DIFFERENCE if all chunks of all
 * stripes agree, else stripe * chunk_bytes + byte of the first place at which they do not. The word counts as
 * a chunk where the GPU is chosen. ec_verify of this stripe names the wrong chunk. -EINVAL also for no stripe
 * and for chunk_bytes = 0. */
#define EC_NO_DIFFERENCE UINT64_MAX
ECCODER_EXPORT int ec_verify_async(const ec_codec* codec, size_t stripes, const unsigned* available,
                                   size_t available_count, const ec_source* sources, size_t chunk_bytes,
                                   uint64_t* difference, struct CUstream_st* stream);

/* ec_add on a stream, by the rules of ec_encode_async; all adds of one accumulator on the same stream, or on
 * streams that wait for each other. The targets hold the chunks when ec_end returns 0 and the stream has come
 * that far; ec_end does not wait. */
ECCODER_EXPORT int ec_add_async(ec_accumulator* accumulator, unsigned chunk, const ec_source* chunks,
                                struct CUstream_st* stream);

/* Finds the code to which shards belong, from their bytes alone: count (2 to 255) shards, shard_bytes each,
 * of one stripe or of many in a row, in any order, in ordinary or pinned memory; one may be damaged, some
 * missing. *found becomes JSON, which the caller gives to free(); null on an error. Shards are named by their
 * place in `shards`, from 0:
 *   k            data chunks; 0: cannot tell. Shards that are not given do not show if they are zero
 *                everywhere, or sums of multiples of others, as equal ones are
 *   fits         dialects that write these bytes (isal_cauchy: klauspost_cauchy, too); m: the fewest coding
 *                chunks with which an order that was tried fits; order: the chunk that each shard then is
 *                (-1: outside), in the given order if this fits; sole: with k + m chunks no other order fits
 *   damaged      the shard that alone explains the columns (the bytes at one place) that break the checks
 *   outside      shards that have no link to the others
 *   columns      looked at, at most 65,536 spread evenly, zeros left out; obeying: columns that agree;
 *                first_bad: the byte of the first that does not, where obeying < columns
 *   checks       rows of a cell a shard: each row times each column that obeys is zero, in the field of
 *                ec_codec_create_matrix
 *   cannot_tell  sentences: the questions without an answer, and why
 * Dialect and order presume at most 4 missing chunks; of more than some 25 shards only the given order is
 * tried, of more than some 45 with up to 3 missing, of more than 90 with up to 2. As many wrong shards as
 * there are checks, or more, may look like one other. Takes up to some seconds. -EINVAL, -ENOMEM. */
ECCODER_EXPORT int ec_identify(const ec_source* shards, size_t count, size_t shard_bytes, char** found);

/* Why the last failed call of this thread failed: a sentence that names the parameter, its value and the
 * allowed ones. Never null; empty if no call failed. The library's until the thread's next failed call. */
ECCODER_EXPORT const char* ec_error_text(void);

/* The version of the library that is running, "0.3.0" or, before its release, "0.3.0~dev". */
ECCODER_EXPORT const char* ec_version(void);

#ifdef __cplusplus
}
#endif

#endif
