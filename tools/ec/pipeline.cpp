#include "tools/ec/pipeline.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "support/wait.hpp"
#include "tools/ec/disk.hpp"

namespace ec::file {
namespace {

constexpr std::size_t page = 4096, large_page = 2 << 20;
constexpr std::chrono::milliseconds between_drawings{200};

/// What a thread gets where another one has failed.
struct Stopped {};

/// Memory for stripes. No other place gets such memory, so that here it could be memory for a GPU.
std::unique_ptr<std::byte, decltype(&std::free)> allocate_buffer(std::size_t bytes) {
  const std::size_t unit = bytes < large_page ? page : large_page;
  bytes = (bytes + unit - 1) / unit * unit;
  auto* const buffer = static_cast<std::byte*>(std::aligned_alloc(unit, bytes));
  if (buffer == nullptr) throw std::bad_alloc();
  // By small pages the first touch of 256 MiB took as long as the coding of 1 GiB.
  if (unit == large_page) madvise(buffer, bytes, MADV_HUGEPAGE);
  return {buffer, std::free};
}

}  // namespace

Pipeline::Pipeline(unsigned threads, std::string what, std::uint64_t bytes, bool is_shown)
    : threads_(threads),
      what_(std::move(what)),
      bytes_(bytes),
      is_shown_(is_shown && isatty(STDERR_FILENO) != 0) {}

Pipeline::~Pipeline() {
  // Nothing of the line stays.
  if (is_shown_) fmt::print(stderr, "\r\x1b[K");
}

void Pipeline::draw() const {
  if (!is_shown_) return;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed)), rate = done / time.count();
  std::string line = fmt::format("\r{}: {:.2f} GB, {:.2f} GB/s", what_, done / 1e9, rate / 1e9);
  if (bytes_ > 0 && done > 0) {
    const double all = static_cast<double>(bytes_);
    line += fmt::format(", {:.0f} % of {:.2f} GB, {:.0f} s left", 100 * done / all, all / 1e9,
                        std::max(0.0, all - done) / rate);
  }
  fmt::print(stderr, "{}\x1b[K", line);
  std::fflush(stderr);
}

std::span<std::byte> Stripe::place_of_checksum(unsigned shard) const {
  return has_record(shard) ? record(shard).last(checksum_bytes)
                           : sums().subspan(shard * checksum_bytes, checksum_bytes);
}

Checksum Stripe::right_checksum(unsigned shard) const {
  const auto covered =
      has_record(shard) ? record(shard).first(set_.record_bytes - checksum_bytes) : block(shard);
  return record_checksum(covered, {}, set_.uuid, shard, number);
}

Checksum Stripe::checksum(unsigned shard) const {
  Checksum checksum;
  std::memcpy(checksum.data(), place_of_checksum(shard).data(), checksum.size());
  return checksum;
}

void Stripe::seal(unsigned shard) const {
  if (has_record(shard)) std::ranges::copy(sums(), sums_in(shard).begin());
  const Checksum checksum = right_checksum(shard);
  std::memcpy(place_of_checksum(shard).data(), checksum.data(), checksum.size());
}

bool Stripe::is_sound(unsigned shard) const { return checksum(shard) == right_checksum(shard); }

void Stripe::take_sums(unsigned shard) const { std::ranges::copy(sums_in(shard), sums().begin()); }

void Pipeline::run(const SetHeader& set, std::uint64_t stripes,
                   const std::function<void(const Stripe&)>& work) {
  run(stripes, Stripe::buffer_bytes(set), [&](std::uint64_t number, std::byte* buffer) {
    work(Stripe(set, buffer, number));
    add(set.stripe_bytes());
  });
}

void Pipeline::run(std::uint64_t pieces, std::size_t buffer_bytes, const PieceFunction& work) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  running_ = static_cast<unsigned>(std::min<std::uint64_t>(threads_ == 0 ? cores : threads_, pieces));
  next_ = turn_ = 0;
  end_ = pieces;
  std::vector<std::jthread> threads;
  const unsigned count = running_;
  const auto thread = [&] {
    std::exception_ptr error;
    try {
      const auto buffer = allocate_buffer(buffer_bytes);
      for (std::uint64_t number = 0;; work(number, buffer.get())) {
        const std::lock_guard lock(mutex_);
        if (next_ >= end_ || error_) break;
        number = next_++;
      }
    } catch (const Stopped&) {
      // Another thread's error is the one to tell.
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    --running_;
    changed_.notify_all();
  };
  for (unsigned i = 0; i < count; ++i) try {
      threads.emplace_back(thread);
    } catch (const std::system_error&) {
      // The threads that are there do all the work.
      if (threads.empty()) throw;
      const std::lock_guard lock(mutex_);
      --running_;
    }
  {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, between_drawings, [&] { return running_ == 0; })) {
      end_if_interrupted();
      draw();
    }
  }
  threads.clear();
  end_if_interrupted();
  if (error_) std::rethrow_exception(error_);
}

void Pipeline::in_turn(std::uint64_t stripe, const std::function<void()>& part) {
  std::unique_lock lock(mutex_);
  support::wait(changed_, lock, [&] { return turn_ == stripe || error_; });
  if (error_) throw Stopped();
  lock.unlock();
  part();
  lock.lock();
  ++turn_;
  changed_.notify_all();
}

void Pipeline::end_at(std::uint64_t stripe) {
  const std::lock_guard lock(mutex_);
  end_ = std::min(end_, stripe);
}

}  // namespace ec::file
