// Compiled programs, kept in memory (bounded) and on disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// Changes whenever the same matrix gives another program or parameters another meaning: old files then miss.
inline constexpr unsigned generator_version = 1;

/// Names a program: a hash of the matrix, the chip, `settings` (whatever else the text depends on) and
/// generator_version.
std::string program_key(const gf::Matrix& matrix, unsigned chip, std::string_view settings);

/// $XDG_CACHE_HOME/ec-cuda, else $HOME/.cache/ec-cuda, else empty (a daemon without a home keeps none on
/// disk).
std::filesystem::path default_cache_directory();

/// Thread safe; nothing here throws for what the disk does: a cache that cannot be used only misses.
class ProgramCache {
 public:
  using Cubin = std::shared_ptr<const std::vector<char>>;

  /// capacity: programs kept in memory, the least recently used given up first. An empty directory: no disk.
  /// The directory is made (mode 0700) on first insert. It is used only if it is a directory, not a link,
  /// that belongs to the effective user and that nobody else can write to.
  ProgramCache(std::size_t capacity, std::filesystem::path directory)
      : capacity_(capacity), directory_(std::move(directory)) {}

  /// From memory, else from disk (then kept in memory too), else null. A file that is short, foreign, for
  /// another key, or whose contents do not have the checksum it states, counts as absent.
  Cubin find(const std::string& key);

  /// Keeps `cubin` in memory and writes it to disk under a name of its own, then renames it into place, so
  /// that readers see the old file or the new one. Returns whether it is on disk now.
  bool insert(const std::string& key, Cubin cubin);

 private:
  struct Entry {
    std::string key;
    Cubin cubin;
  };
  void remember(const std::string& key, Cubin cubin);

  const std::size_t capacity_;
  const std::filesystem::path directory_;
  std::mutex mutex_;
  std::list<Entry> recent_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> at_;
};

}  // namespace ec::kernels::cuda
