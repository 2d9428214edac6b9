// Files as a set needs them. Directories are opened once, and from there names are taken one by one, without
// following links: whoever may change a directory changes nothing outside. Faults of the host are Failures
// that name file and cause.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace ec::file {

/// Text of unknown origin for people and for JSON.
std::string printable(std::string text);

/// From here on blocks that a disk cannot read (EIO) are lost; otherwise they are Failures.
void take_bad_sectors_for_lost();

/// Reads up to bytes.size() bytes and returns how many there were. Throws Failure.
std::size_t read_stream(int fd, std::span<std::byte> bytes);
/// Writes all. Throws Failure.
void write_stream(int fd, std::span<const std::byte> bytes);

/// Something in a directory that is open while it is used, and may be closed in between: descriptors are few.
class Opened;

/// A descriptor that stays open as long as this is there.
class Held {
 public:
  Held() = default;
  explicit Held(std::shared_ptr<const support::Descriptor> fd) : fd_(std::move(fd)) {}
  operator int() const { return fd_ ? fd_->get() : -1; }

 private:
  std::shared_ptr<const support::Descriptor> fd_;
};

/// A directory. Immutable. All throw Failure.
class Directory {
 public:
  /// The last name of the path may be a link only with a slash behind it.
  static std::shared_ptr<const Directory> open(const std::string& path);
  /// The same, but none if a file has that path.
  static std::shared_ptr<const Directory> find(const std::string& path);
  /// One in `base`, by an inner path (is_inner_path) or none; no name on it may be a link.
  static std::shared_ptr<const Directory> open_in(const std::shared_ptr<const Directory>& base,
                                                  const std::string& path);

  Held fd() const;
  /// The same where nothing may be thrown; none if it cannot be opened again.
  Held fd_or_none() const noexcept;
  dev_t dev() const { return dev_; }
  bool is(const Directory& other) const { return dev_ == other.dev_ && ino_ == other.ino_; }
  /// For people.
  std::string path_of(const std::string& name) const;
  /// What has that name or inner path; none if nothing has.
  std::optional<struct stat> look(const std::string& name) const;
  std::vector<std::string> names() const;
  /// Names in it are on the disk.
  void sync() const;
  /// No other process has it locked while this one is open.
  void lock() const;

 private:
  Directory(std::string path, Held fd, std::shared_ptr<Opened> opened, const struct stat& st)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        opened_(std::move(opened)),
        dev_(st.st_dev),
        ino_(st.st_ino) {}

  const std::string path_;
  const Held fd_;
  const std::shared_ptr<Opened> opened_;  ///< of one in another; without fd_
  const dev_t dev_;
  const ino_t ino_;
};
using Place = std::shared_ptr<const Directory>;

/// Whether both are the same file.
bool is_same(const struct stat& a, const struct stat& b);

/// A regular file. It may be closed and opened again, as descriptors are few; then it is the same file, or a
/// Failure. Any number of threads may use one.
class File {
 public:
  /// Opens it. Without a place `name` is a path and links are followed. Throws Failure.
  File(Place place, const std::string& name);
  /// The same by a name or an inner path, on which no name may be a link; none if there is no such regular
  /// file, or with a sentence if it may not be read.
  static std::optional<File> find(const Place& place, const std::string& name, std::string* denied);

  /// As it was when it was opened.
  const struct stat& opened() const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(opened().st_size); }
  /// Throws Failure if it changed since then.
  void check_unchanged() const;
  /// Returns how many bytes there were. Throws Failure.
  std::size_t read_at(std::span<std::byte> bytes, std::uint64_t offset) const;

 private:
  friend class NewFile;
  explicit File(std::shared_ptr<Opened> state) : state_(std::move(state)) {}
  std::shared_ptr<Opened> state_;
};

/// A file under a temporary name in the directory where it is to be. It is gone, and what it replaced is
/// back, unless it is kept. All but keep throw Failure. write_at may be called by several threads at a time.
class NewFile {
 public:
  /// The umask takes from the mode.
  NewFile(Place place, mode_t mode);
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Takes owner and permissions from another file. It gets no bit that lets it run as somebody else.
  void be_like(const struct stat& other);
  /// Takes permissions and the time of its last change from a table.
  void be_as(mode_t mode, const struct timespec& changed);
  /// Takes the room for so many bytes now, where the file system can, so that a full disk is found early.
  void reserve(std::uint64_t bytes);
  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  /// To read what was written so far.
  File opened() const { return File(place_, temporary_); }
  /// Then it is on the disk, with so many bytes at least: the last ones may be a hole.
  void sync(std::uint64_t bytes = 0);
  /// Gives it a name that nothing has. Names are on the disk after Directory::sync.
  void put_at(const std::string& name);
  /// Puts it in the place of `old`, which must still be what the name stands for. `aside`: the name that the
  /// old file gets; empty: it will be removed.
  void put_over(const std::string& name, const struct stat& old, const std::string& aside = "");
  /// What put_at and put_over did stays.
  void keep() noexcept;

 private:
  void undo() noexcept;

  Place place_;
  File file_;
  std::string temporary_;    ///< empty when it has its name, or is moved from
  std::string name_;         ///< what it gets or has
  std::string old_, aside_;  ///< where the old file is, and what it will be called
  bool has_link_ = false;    ///< it is called so already
  std::optional<struct stat> like_;
  std::optional<mode_t> mode_;
  struct timespec changed_ {};
};

/// A new directory, which is gone again unless it is kept.
class NewDirectory {
 public:
  /// Throws Failure.
  NewDirectory(Place parent, std::string name);
  NewDirectory(NewDirectory&& other) noexcept;
  NewDirectory& operator=(NewDirectory&&) = delete;
  ~NewDirectory();
  void keep() noexcept;

 private:
  Place parent_;
  std::string name_;  ///< empty when it is kept, or moved from
};

/// Gives a directory permissions and the time of its last change, on the disk. Throws Failure.
void make_as(const Directory& directory, mode_t mode, const struct timespec& changed);

/// Whether a name is one that NewFile gives at first.
bool is_temporary(const std::string& name);
/// Renames unless something of that name is there. Throws Failure.
void rename_to_free(const Directory& place, const std::string& from, const std::string& to);
void rename_to_free(const Directory& place, const std::string& from, const Directory& other,
                    const std::string& to);

/// What standard input, output and error are when they are closed: nothing that a file could be taken for.
void fill_standard_streams();
/// From here on Ctrl-C and its like are noted and end the program in end_if_interrupted, which removes the
/// temporary files first. Other threads may still be working.
void note_interrupts();
void end_if_interrupted();

}  // namespace ec::file
