// The stats page of a process: see stats_region.hpp.
#include "plugin/codec/stats/stats_region.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "kernels/backends.hpp"
#include "support/files.hpp"

namespace ec::codec {
namespace {

constinit StatsPage unshared;

template <std::size_t n>
void set_text(std::array<char, n>& to, std::string_view from) noexcept {
  std::copy_n(from.begin(), std::min(from.size(), n - 1), to.begin());
}

void introduce(StatsPage& page) noexcept {
  page.layout = stats_layout;
  page.bytes = sizeof(StatsPage);
  page.pid = getpid();
  page.since = static_cast<std::uint64_t>(std::time(nullptr));
  // Last, so that who reads it sees the rest; a reader in another process asks for no more than that.
  std::atomic_thread_fence(std::memory_order_release);
  page.magic = stats_magic;
}

}  // namespace

void StatsRegion::make() noexcept {
  if (!open_file() || !map(nullptr, file_)) {
    close_file();
    page_ = &unshared;
  }
  set_text(page_->version, EC_VERSION);
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i) set_text(page_->backends[i], list[i]->name());
  introduce(*page_);
}

void StatsRegion::make_anew() noexcept {
  const auto version = page_->version;
  const auto backends = page_->backends;
  close_file();
  if (!mapped_) {
    std::memset(static_cast<void*>(page_), 0, sizeof *page_);
  } else if (!open_file() || !map(page_, file_)) {
    close_file();
    if (!map(page_, -1)) return;
  }
  page_->version = version;
  page_->backends = backends;
  introduce(*page_);
}

void StatsRegion::discard() noexcept {
  close_file();
  if (mapped_) munmap(page_, sizeof *page_);
}

bool StatsRegion::open_file() noexcept {
  if (!support::may_be_so_long(sizeof(StatsPage))) return false;
  const support::Descriptor made(memfd_create(stats_region_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Where a program has closed a standard stream, its next file is meant to take that number, and not ours.
  file_ = fcntl(made.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  struct stat st {};
  if (file_ < 0 || fstat(file_, &st) != 0) return false;
  device_ = st.st_dev;
  inode_ = st.st_ino;
  return fchmod(file_, S_IRUSR | S_IWUSR) == 0 && ftruncate(file_, sizeof(StatsPage)) == 0;
}

void StatsRegion::close_file() noexcept {
  struct stat st {};
  if (file_ >= 0 && fstat(file_, &st) == 0 && st.st_dev == device_ && st.st_ino == inode_) close(file_);
  file_ = -1;
}

/// Maps `file` at `place` (null: anywhere), or memory of this process if it is negative.
bool StatsRegion::map(void* place, int file) noexcept {
  const int where = place == nullptr ? 0 : MAP_FIXED;
  const int whose = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* mapped = mmap(place, sizeof(StatsPage), PROT_READ | PROT_WRITE, where | whose, file, 0);
  if (mapped == MAP_FAILED) return false;
  // What is mapped stays writable.
  if (file >= 0 && fcntl(file, F_ADD_SEALS, stats_seals | F_SEAL_FUTURE_WRITE) != 0 &&
      fcntl(file, F_ADD_SEALS, stats_seals) != 0) {
    if (place == nullptr) munmap(mapped, sizeof(StatsPage));
    return false;
  }
  page_ = static_cast<StatsPage*>(mapped);
  mapped_ = true;
  return true;
}

}  // namespace ec::codec
