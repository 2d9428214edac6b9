// The geometry of generated kernels, shared by host and device. A kernel takes one parameter, words of 8
// bytes:
//   one stripe    the addresses of k sources and m targets, bytes
//   many stripes  the address of a table (stripe after stripe k sources and m targets), bytes, stripes
// `bytes` is the length of every chunk, a multiple of 16 and at least generated_tile; chunks are aligned to
// 16 bytes. Any number of blocks of generated_threads threads does the whole job.
#pragma once

namespace ec::kernels::cuda {

inline constexpr unsigned generated_threads = 256;
/// Bytes of every chunk that a warp codes at a time.
inline constexpr unsigned generated_tile = 1024;

}  // namespace ec::kernels::cuda
