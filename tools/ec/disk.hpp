// Files as a set needs them: read where parts may be missing, and written whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "support/files.hpp"

namespace ec::file {

/// Text of unknown origin for people and for JSON.
std::string printable(std::string text);

/// Reads up to bytes.size() bytes and returns how many there were. Where an error ends it sooner it is left
/// in *error, an errno.
std::size_t read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset, int* error);
/// The same from where a stream is. Throws Failure.
std::size_t read_stream(int fd, std::span<std::byte> bytes);
/// Writes all. Throws Failure.
void write_stream(int fd, std::span<const std::byte> bytes);

/// A file under a temporary name in the directory where it is to be; it is gone unless it is put in place.
/// All throw Failure. write_at may be called by several threads at a time.
class NewFile {
 public:
  /// The umask takes from the mode.
  NewFile(const std::filesystem::path& directory, mode_t mode);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Takes the room for so many bytes now, where the file system can, so that a full disk is found early.
  void reserve(std::uint64_t bytes);
  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  void sync();
  /// Gives it its name, which is in the same directory. Nothing may be there but with `may_replace`. The name
  /// is on the disk after sync_directory.
  void put_at(const std::filesystem::path& path, bool may_replace);

 private:
  std::string temporary_;  ///< empty: put in place, or moved from
  support::Descriptor fd_;
};

/// Whether a file has a name that NewFile gives.
bool is_temporary(const std::filesystem::path& path);
/// Renames unless something of that name is there.
void rename_to_free(const std::string& from, const std::string& to);
/// Gives a file a second name, or where the file system can not, another one.
void link_or_rename(const std::string& from, const std::string& to);
void sync_directory(const std::filesystem::path& directory);

/// From here on Ctrl-C and its like are noted and end the program in end_if_interrupted, which removes the
/// temporary files first. Other threads may still be working.
void note_interrupts();
void end_if_interrupted();

}  // namespace ec::file
