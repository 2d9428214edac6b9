#include "plugin/codec/routing/cpu_load.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "support/files.hpp"

namespace ec::codec {
namespace {

std::int64_t ns(std::chrono::steady_clock::duration time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace

std::optional<unsigned> runnable_threads(std::string_view text) noexcept {
  // "0.31 0.18 0.11 3/412 9871": three averages, runnable of all threads, the last process.
  for (int field = 0; field < 3; ++field) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  unsigned runnable = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), runnable);
  if (error != std::errc() || end == text.data() + text.size() || *end != '/') return std::nullopt;
  return runnable;
}

CpuLoad::CpuLoad(unsigned cores, std::string path) : cores_(std::max(cores, 1u)), path_(std::move(path)) {}

void CpuLoad::read(double weight) noexcept {
  char text[128];
  const support::Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t length = file.get() < 0 ? -1 : ::read(file.get(), text, sizeof text);
  const auto runnable =
      length < 0 ? std::nullopt : runnable_threads({text, static_cast<std::size_t>(length)});
  const double before = runnable_.load(std::memory_order_relaxed);
  runnable_.store(runnable ? before + weight * (*runnable - before) : 0, std::memory_order_relaxed);
}

double CpuLoad::stretch() noexcept {
  const std::int64_t now = ns(std::chrono::steady_clock::now().time_since_epoch());
  std::int64_t due = due_ns_.load(std::memory_order_relaxed);
  // One thread reads; the others take what was read before.
  if (now >= due && due_ns_.compare_exchange_strong(due, now + ns(interval), std::memory_order_relaxed))
    read(now - due > ns(memory) ? 1 : 0.25);
  return std::clamp(runnable_.load(std::memory_order_relaxed) / cores_, 1.0, most);
}

CpuLoad& cpu_load() {
  static CpuLoad load(std::thread::hardware_concurrency(), "/proc/loadavg");
  return load;
}

}  // namespace ec::codec
