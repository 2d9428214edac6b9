#include "plugin/codec/stats/stats.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>

#include "kernels/backends.hpp"
#include "support/files.hpp"
#include "support/no_cancellation.hpp"

namespace ec::codec {
namespace {

constinit StatsPage unshared;

template <std::size_t n>
void set_text(std::array<char, n>& to, std::string_view from) noexcept {
  std::copy_n(from.begin(), std::min(from.size(), n - 1), to.begin());
}

/// The page of the process. Not thread safe. Takes no lock, and allocates nothing.
class PageMapping {
 public:
  /// A page of zeros with all fields but the counts filled in. Its file may be read by the user alone. Where
  /// the process can have no file, the page is memory that no other process reads. In a child of fork() the
  /// new page is at the address of the parent's page, and apart from it. Returns the page.
  StatsPage* make(StatsPage* parents) noexcept {
    page_ = parents;
    const auto interface = parents != nullptr ? parents->interface : decltype(parents->interface) {};
    close_file();
    if (parents == &unshared || !open_file() || !map(parents, file_)) {
      close_file();
      if (parents == nullptr)
        page_ = &unshared;
      else if (parents == &unshared)
        std::memset(static_cast<void*>(parents), 0, sizeof *parents);
      else if (!map(parents, -1))
        return parents;
    }
    set_text(page_->version, EC_VERSION);
    const auto list = kernels::backends();
    for (std::size_t i = 0; i < list.size(); ++i) set_text(page_->backends[i], list[i]->name());
    page_->interface = interface;
    page_->layout = stats_layout;
    page_->bytes = sizeof(StatsPage);
    page_->pid = getpid();
    page_->since = static_cast<std::uint64_t>(std::time(nullptr));
    // Last, so that a reader of the version sees the rest; a reader in another process asks for no more.
    std::atomic_thread_fence(std::memory_order_release);
    page_->magic = stats_magic;
    return page_;
  }
  /// Gives back the page and its file.
  void discard() noexcept {
    close_file();
    if (page_ != &unshared) munmap(page_, sizeof *page_);
  }

 private:
  bool open_file() noexcept {
    if (!support::may_be_so_long(sizeof(StatsPage))) return false;
    const support::Descriptor made(memfd_create(stats_file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    // Where a program has closed a standard stream, its next file is meant to take that number, not ours.
    file_ = fcntl(made.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    struct stat st {};
    if (file_ < 0 || fstat(file_, &st) != 0) return false;
    device_ = st.st_dev;
    inode_ = st.st_ino;
    return fchmod(file_, S_IRUSR | S_IWUSR) == 0 && ftruncate(file_, sizeof(StatsPage)) == 0;
  }
  void close_file() noexcept {
    struct stat st {};
    if (file_ >= 0 && fstat(file_, &st) == 0 && st.st_dev == device_ && st.st_ino == inode_) close(file_);
    file_ = -1;
  }
  /// Maps `file` at `place` (null: anywhere), or memory of this process if it is negative.
  bool map(void* place, int file) noexcept {
    const int where = place == nullptr ? 0 : MAP_FIXED;
    const int whose = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* mapped = mmap(place, sizeof(StatsPage), PROT_READ | PROT_WRITE, where | whose, file, 0);
    if (mapped == MAP_FAILED) return false;
    // The existing mapping stays writable.
    if (file >= 0 && fcntl(file, F_ADD_SEALS, stats_seals | F_SEAL_FUTURE_WRITE) != 0 &&
        fcntl(file, F_ADD_SEALS, stats_seals) != 0) {
      if (place == nullptr) munmap(mapped, sizeof(StatsPage));
      return false;
    }
    page_ = static_cast<StatsPage*>(mapped);
    return true;
  }

  StatsPage* page_ = nullptr;
  // A number alone does not name a file: the program may have closed ours and opened another there.
  int file_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

std::size_t bucket_of(std::uint64_t nanoseconds) noexcept {
  const auto bucket = std::bit_width((std::max<std::uint64_t>(nanoseconds, 1) - 1) / Durations::bound(0));
  return std::min<std::size_t>(static_cast<std::size_t>(bucket), Durations::buckets - 1);
}

/// Searched for at load, before a host forks: a preload is there by then or never, and a search in vain
/// allocates.
const auto ask_arena =
    reinterpret_cast<decltype(&ec_cuda_pinned_statistics)>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_statistics"));

/// Copies the state of libec_cuda_pinned.so, where it is there, once a second.
void look_at_arena(StatsPage& page, Stats::Clock::time_point now) noexcept {
  if (ask_arena == nullptr) return;
  static std::atomic<std::int64_t> looked_at{-1};
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::int64_t last = looked_at.load(std::memory_order_relaxed);
  if (last == second || !looked_at.compare_exchange_strong(last, second, std::memory_order_relaxed)) return;
  ec_cuda_pinned_stats seen{};
  ask_arena(&seen);
  for (const auto field : {&ec_cuda_pinned_stats::arena_bytes, &ec_cuda_pinned_stats::used_bytes,
                           &ec_cuda_pinned_stats::peak_bytes, &ec_cuda_pinned_stats::allocated,
                           &ec_cuda_pinned_stats::released, &ec_cuda_pinned_stats::refused})
    kernels::set(page.arena.*field, seen.*field);
}

}  // namespace

Shard sum(const StatsPage& page) noexcept {
  // A shard has nothing but counts, and zeros between.
  static_assert(sizeof(Shard) % sizeof(std::uint64_t) == 0);
  Shard total{};
  auto* const words = reinterpret_cast<std::uint64_t*>(&total);
  for (const Shard& shard : page.shards)
    for (std::size_t i = 0; i < sizeof(Shard) / sizeof(std::uint64_t); ++i)
      words[i] += kernels::read(reinterpret_cast<const std::uint64_t*>(&shard)[i]);
  return total;
}

void Stats::speaks(std::string_view interface) noexcept { set_text(page().interface, interface); }

void Stats::JobRecord::took_time(Row& row, std::uint64_t source_bytes, Clock::time_point begun) noexcept {
  const auto now = Clock::now();
  const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - begun).count());
  Durations& durations = source_bytes < timed_from_bytes ? row.small : row.large;
  // Atomic in any shard; timed jobs are rare.
  kernels::add(durations.nanoseconds, ns);
  kernels::add(durations.jobs[bucket_of(ns)], 1);
  look_at_arena(stats().page(), now);
}

[[gnu::tls_model("initial-exec")]] constinit thread_local ThisThread thread_record;

void ThisThread::choose_shard() noexcept {
  static constinit std::atomic<unsigned> next{0};
  const unsigned number = next.fetch_add(1, std::memory_order_relaxed);
  alone = number < own_shards;
  shard = alone ? number : own_shards + number % shared_shards;
}

void Stats::happened(Event event, std::uint64_t times) noexcept {
  const ThisThread& thread = this_thread();
  add(page().shards[thread.shard].events[static_cast<std::size_t>(event)], times, thread.alone);
}

namespace {
constinit NeverDestroyed<Stats> stats_of_process(nullptr);
constinit PageMapping mapping;  ///< the page of stats_of_process
}  // namespace

void Stats::become_child() noexcept {
  const support::NoCancellation whole;
  // A thread of the parent may not have set the page of `mapping` yet.
  StatsPage* const parents = stats_of_process.value.page_.load(std::memory_order_relaxed);
  if (parents == nullptr) return;
  mapping.make(parents);
  stats_of_process.value.on_device_ = 0;
}

const int Stats::at_fork = pthread_atfork(nullptr, nullptr, become_child);

void Stats::publish() noexcept {
  // No lock: a child of fork() would inherit it locked.
  PageMapping made;
  StatsPage* const page = made.make(nullptr);
  StatsPage* none = nullptr;
  if (!page_.compare_exchange_strong(none, page, std::memory_order_acq_rel)) return made.discard();
  mapping = made;
  kernels::keep_device_stats_in(page->device);
}

Stats& stats() noexcept {
  Stats& counts = stats_of_process.value;
  if (counts.page_.load(std::memory_order_acquire) == nullptr) [[unlikely]]
    counts.publish();
  return counts;
}

}  // namespace ec::codec
