// Compiled programs as files of one directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ec::kernels::cuda {

/// $XDG_CACHE_HOME/ec_cuda, else $HOME/.cache/ec_cuda, else empty (a daemon without a home keeps none on
/// disk). Relative paths are ignored, as is the environment of a program that runs with more rights than its
/// caller.
std::string default_cache_directory();

/// What precedes `body` in the file of `key`: a digest of both.
std::string program_header(std::string_view key, std::string_view body);

/// The body that `file` holds for `key`; empty unless all before it is exactly program_header of the two. Any
/// bytes are safe to give.
std::string program_body(std::string_view file, std::string_view key);

/// The directory is made (mode 0700, with at most one parent) by the first write. It is used only if it is a
/// directory, not a link, that belongs to the effective user and that nobody else can write to: what is in it
/// is code that will run on the device, and the checksum is there against accidents, not against an attacker.
/// Every call opens and checks the directory anew, and reaches files only through it.
/// Thread safe, also between processes: files appear and vanish whole.
class ProgramFiles {
 public:
  /// The least recently used files beyond `bytes` in all are removed; other files in the directory are let
  /// be. A file of more than `file_bytes` is neither written nor read.
  struct Limits {
    std::uint64_t bytes = std::uint64_t{256} << 20;
    std::size_t file_bytes = std::size_t{16} << 20;
  };

  ProgramFiles(std::string directory, Limits limits) : directory_(std::move(directory)), limits_(limits) {}

  /// What was written for `key`; empty if there is nothing, or a file that is cut, damaged, too large, for
  /// another key, not a regular file or not ours. Throws only std::bad_alloc.
  std::string read(std::string_view key) const;

  /// Writes a new file and renames it into place. Returns whether it is there. Throws only std::bad_alloc.
  bool write(std::string_view key, std::string_view body) const;

  /// Name of the file for `key`, inside the directory.
  static std::string file_name(std::string_view key);

 private:
  void remove_oldest(int directory) const;

  const std::string directory_;
  const Limits limits_;
};

}  // namespace ec::kernels::cuda
