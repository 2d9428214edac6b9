#include "plugin/codec/stats/stats_region.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "kernels/backends.hpp"

namespace ec::codec {
namespace {

struct Region {
  int file = -1;
  void* place = nullptr;
};
Region region;

template <std::size_t n>
std::array<char, n> text(std::string_view from) {
  std::array<char, n> to{};
  std::copy_n(from.begin(), std::min(from.size(), n - 1), to.begin());
  return to;
}

/// Everything of the page that is not counted.
void introduce(StatsPage& page) noexcept {
  page.layout = stats_layout;
  page.bytes = sizeof(StatsPage);
  page.pid = getpid();
  page.since = static_cast<std::uint64_t>(std::time(nullptr));
  page.version = text<sizeof page.version>(EC_VERSION);
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    page.backends[i] = text<sizeof page.backends[i]>(list[i]->name());
  // Last, so that who reads it sees the rest; a reader in another process asks for no more than that.
  std::atomic_thread_fence(std::memory_order_release);
  page.magic = stats_magic;
}

/// A new file of the size of the page, or -1. System calls only: runs in the child of a fork() too.
int make_file() noexcept {
  const int file = memfd_create(stats_region_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  if (fchmod(file, S_IRUSR | S_IWUSR) == 0 && ftruncate(file, sizeof(StatsPage)) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return file;
  close(file);
  return -1;
}

/// Maps `file` at `place` (null: anywhere), or memory of this process where there is none. Null on failure.
void* map(void* place, int file) noexcept {
  const int where = place == nullptr ? 0 : MAP_FIXED;
  const int whose = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* mapped = mmap(place, sizeof(StatsPage), PROT_READ | PROT_WRITE, where | whose, file, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

/// What the child counts is not the parent's.
void become_child() noexcept {
  close(region.file);
  region.file = make_file();
  if (map(region.place, region.file) != nullptr || map(region.place, -1) != nullptr)
    introduce(*static_cast<StatsPage*>(region.place));
}

}  // namespace

Counters* publish_counters() noexcept {
  static Counters own;
  Counters* counters = &own;
  region.file = make_file();
  if (region.file >= 0) region.place = map(nullptr, region.file);
  if (region.place != nullptr) {
    // A new file holds zeros, and so does a new page.
    counters = static_cast<Counters*>(region.place);
    pthread_atfork(nullptr, nullptr, become_child);
  }
  introduce(counters->page());
  kernels::keep_device_tallies_in(counters->page().device);
  return counters;
}

}  // namespace ec::codec
