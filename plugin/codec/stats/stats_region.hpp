// Where the stats page of a process lies: in shared memory without a name, which other programs find as
// /proc/PID/fd/N -> "/memfd:ec_cuda_stats (deleted)" and read. Nothing is left of it when the process ends.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include "plugin/codec/stats/stats_page.hpp"

namespace ec::codec {

inline constexpr const char* stats_region_name = "ec_cuda_stats";
/// What its file is sealed against at least. Where the kernel can (Linux 5.1), also against writing by
/// whoever opens it.
inline constexpr int stats_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Not thread safe. System calls only, but for the first make().
class StatsRegion {
 public:
  /// Null before make(), never after it.
  StatsPage* page() const noexcept { return page_; }

  /// A page of zeros with all that is not counted filled in. Its file may be read by the user alone. Where
  /// the process can have none, the page is memory that nobody else reads.
  void make() noexcept;
  /// In a child of fork(): the same, at the same address, and apart from the parent's.
  void make_anew() noexcept;
  /// Gives back what make() made.
  void discard() noexcept;

 private:
  bool open_file() noexcept;
  void close_file() noexcept;
  bool map(void* place, int file) noexcept;

  StatsPage* page_ = nullptr;
  bool mapped_ = false;
  // A number alone does not name a file: the program may have closed it and opened another there.
  int file_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace ec::codec
