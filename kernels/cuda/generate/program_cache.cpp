#include "kernels/cuda/generate/program_cache.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/cuda/generate/nvrtc.hpp"

namespace ec::kernels::cuda {

std::string program_key(const gf::Matrix& matrix, unsigned chip, std::string_view settings) {
  std::string key = fmt::format("v{} nvrtc {} sm_{} {}x{} {}\n", generator_version, nvrtc_version(), chip,
                                matrix.rows(), matrix.cols(), settings);
  key.append(matrix.cells().begin(), matrix.cells().end());
  return key;
}

ProgramCache::Cubin ProgramCache::find(const std::string& key) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (const auto there = at_.find(key); there != at_.end()) {
      recent_.splice(recent_.begin(), recent_, there->second);
      return there->second->cubin;
    }
  }
  std::vector<char> body = files_.read(key);
  if (body.empty()) return nullptr;
  auto cubin = std::make_shared<const std::vector<char>>(std::move(body));
  remember(key, cubin);
  return cubin;
} catch (...) {  // out of memory, or a lock that the system refuses
  return nullptr;
}

bool ProgramCache::insert(const std::string& key, Cubin cubin) noexcept try {
  if (!cubin || cubin->empty()) return false;
  remember(key, cubin);
  return files_.write(key, *cubin);
} catch (...) {
  return false;
}

void ProgramCache::remember(const std::string& key, Cubin cubin) {
  const std::lock_guard lock(mutex_);
  if (const auto there = at_.find(key); there != at_.end()) forget(there->second);
  if (cubin->size() > memory_bytes_) return;
  while (held_bytes_ + cubin->size() > memory_bytes_) forget(std::prev(recent_.end()));
  const std::size_t bytes = cubin->size();
  recent_.push_front({key, std::move(cubin)});
  try {
    at_.emplace(key, recent_.begin());
  } catch (...) {
    recent_.pop_front();
    throw;
  }
  held_bytes_ += bytes;
}

void ProgramCache::forget(std::list<Entry>::iterator entry) {
  held_bytes_ -= entry->cubin->size();
  at_.erase(entry->key);
  recent_.erase(entry);
}

}  // namespace ec::kernels::cuda
