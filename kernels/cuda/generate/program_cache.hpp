// Compiled programs, kept in memory and on disk, both bounded.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gf/matrix.hpp"
#include "kernels/cuda/generate/program_files.hpp"

namespace ec::kernels::cuda {

/// Changes whenever the same matrix gives another program or parameters another meaning: old files then miss.
inline constexpr unsigned generator_version = 1;

/// All that a program depends on, spelled out: generator_version, NVRTC's version, the chip, `settings`
/// (whatever else the text depends on: verb, batch, tuning), shape and cells. Equal keys, equal programs.
std::string program_key(const gf::Matrix& matrix, unsigned chip, std::string_view settings);

/// Thread safe. Nothing here throws: whatever fails is a miss.
class ProgramCache {
 public:
  using Cubin = std::shared_ptr<const std::vector<char>>;

  /// directory, limits: see ProgramFiles; an empty directory: no disk.
  /// memory_bytes: cubins kept in memory, the least recently used given up first.
  explicit ProgramCache(std::string directory, std::size_t memory_bytes = std::size_t{64} << 20,
                        ProgramFiles::Limits limits = {})
      : memory_bytes_(memory_bytes), files_(std::move(directory), limits) {}

  /// From memory, else from disk (then kept in memory too), else null.
  Cubin find(const std::string& key) noexcept;

  /// Keeps `cubin` in memory and on disk, in the place of what either holds for the key. Returns whether it
  /// is on disk now. Null and empty cubins are not kept.
  bool insert(const std::string& key, Cubin cubin) noexcept;

 private:
  struct Entry {
    std::string key;
    Cubin cubin;
  };
  void remember(const std::string& key, Cubin cubin);
  void forget(std::list<Entry>::iterator entry);

  const std::size_t memory_bytes_;
  const ProgramFiles files_;
  std::mutex mutex_;
  std::size_t held_bytes_ = 0;
  std::list<Entry> recent_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> at_;
};

}  // namespace ec::kernels::cuda
