/* The exports of libec_cuda_pinned.so beside the allocator's own functions. LD_PRELOAD loads the library, or
 * nothing does, so these are looked up with dlsym(RTLD_DEFAULT, ...) and never linked. Declarations only.
 *
 * The preload is an allocator with an arena and knows no driver. The owner of the device brings the arena to
 * life: it calls ec_cuda_pinned_start() with a function that page-locks. Nothing is handed out before this
 * function has succeeded, so allocations of the driver meanwhile cannot come out of the arena. */
#ifndef EC_CUDA_PINNED_H
#define EC_CUDA_PINNED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Page-locks [start, start + bytes), which is mapped, readable and writable. 0 or -errno. */
typedef int ec_cuda_pinned_lock(void* start, size_t bytes, void* context);

/* Maps an arena of `bytes`, rounded up to 2 MiB, has `lock` page-lock it, and from then on serves requests to
 * posix_memalign from it, if they are for `threshold` bytes or more. A later call keeps the arena and the
 * threshold of the first and only has `lock` lock it again, for a device that came up anew. Thread safe;
 * calls wait for each other. Returns 0; -EINVAL if bytes or threshold is 0, or bytes more than 1 TiB; -ENOMEM
 * if the arena could not be mapped; -ENOTSUP in a child of fork() whose parent has called this; or the result
 * of `lock`, and then the first arena is unmapped again. */
int ec_cuda_pinned_start(size_t bytes, size_t threshold, ec_cuda_pinned_lock* lock, void* context);

struct ec_cuda_pinned_stats {
  uint64_t arena_bytes; /* 0: not started */
  uint64_t used_bytes;  /* handed out now, in whole pages */
  uint64_t peak_bytes;  /* the most that ever was */
  uint64_t allocated;   /* blocks handed out */
  uint64_t released;    /* blocks that came back */
  uint64_t refused;     /* blocks that found no room and came from the allocator behind */
};

/* Thread safe. In a child of fork() the numbers of its parent when it forked. */
void ec_cuda_pinned_statistics(struct ec_cuda_pinned_stats* stats);

#ifdef __cplusplus
}
#endif
#endif
