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
#include "tools/common/printable.hpp"

namespace ec::file {

using tools::printable;

/// From here on blocks that a disk cannot read (EIO) are lost; otherwise they are Failures.
void take_bad_sectors_for_lost();

/// Reads up to bytes.size() bytes of standard input and returns how many there were. Throws Failure.
std::size_t read_stream(std::span<std::byte> bytes);
/// Writes all to standard output. Throws Failure.
void write_stream(std::span<const std::byte> bytes);

/// A file or directory that is open while it is used, and may be closed in between: descriptors are few.
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
  /// A directory in `base`, by an inner path (is_inner_path), or `base` by an empty one. No name on the path
  /// may be a link.
  static std::shared_ptr<const Directory> open_in(const std::shared_ptr<const Directory>& base,
                                                  const std::string& path);

  Held fd() const;
  /// The same where nothing may be thrown; none if the directory cannot be opened again.
  Held fd_or_none() const noexcept;
  const struct stat& opened() const { return st_; }
  /// For people.
  std::string path_of(const std::string& name) const;
  /// What has that name or inner path; none if nothing has.
  std::optional<struct stat> look(const std::string& name) const;
  std::vector<std::string> names() const;
  /// Writes the names in the directory to the disk.
  void sync() const;
  /// Fails if another process has locked the directory. The lock is held until the process ends.
  void lock() const;

 private:
  Directory(std::string path, Held fd, std::shared_ptr<Opened> opened, const struct stat& st)
      : path_(std::move(path)), fd_(std::move(fd)), opened_(std::move(opened)), st_(st) {}

  const std::string path_;
  const Held fd_;
  const std::shared_ptr<Opened> opened_;  ///< of a directory in another one; without fd_
  const struct stat st_;
};
using Place = std::shared_ptr<const Directory>;

/// Whether both are the same file.
bool is_same(const struct stat& a, const struct stat& b);

/// A regular file. It may be closed and opened again, as descriptors are few; then it is the same file, or a
/// Failure. Any number of threads may use one.
class File {
 public:
  /// Opens the file. Without a place `name` is a path and links are followed. Throws Failure.
  File(Place place, const std::string& name);
  /// The same by a name or an inner path, on which no name may be a link; none if there is no such regular
  /// file, or if it may not be read: then with a sentence, where that is wanted.
  static std::optional<File> find(const Place& place, const std::string& name, std::string* denied = nullptr);

  /// What fstat said when the file was opened.
  const struct stat& opened() const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(opened().st_size); }
  std::string path() const;
  /// Throws Failure if the file changed since then.
  void check_unchanged() const;
  /// Returns how many bytes there were. Throws Failure.
  std::size_t read_at(std::span<std::byte> bytes, std::uint64_t offset) const;

 private:
  friend class NewFile;
  explicit File(std::shared_ptr<Opened> state) : state_(std::move(state)) {}
  std::shared_ptr<Opened> state_;
};

/// What a set says of a file or directory beside its content.
struct Attributes {
  mode_t mode;  ///< permissions; other bits do not count
  struct timespec changed;
};

/// What is new under a name, and is removed with the last owner of this unless it is kept.
class Temporary;
/// A new directory that its owner may enter. Throws Failure.
std::shared_ptr<Temporary> make_directory(const Place& parent, const std::string& name);
void keep(std::shared_ptr<Temporary>* one) noexcept;

/// A new file, at first under a temporary name in the directory where it is to be. Unless keep is called, the
/// file goes and what it replaced comes back when this object goes. All but keep throw Failure. write_at may
/// be called by several threads at a time.
class NewFile {
 public:
  /// The umask takes from the mode. Until sync the owner may read and write, since the file is opened again.
  NewFile(Place place, mode_t mode);
  NewFile(NewFile&&) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Takes the room for so many bytes now, where the file system can, so that a full disk is found early.
  void reserve(std::uint64_t bytes);
  /// Zeros are left a hole, so that no place is to be written twice.
  void write_at(std::span<const std::byte> bytes, std::uint64_t offset);
  /// Then the file is on the disk, with so many bytes at least: the last ones may be a hole. Owner and
  /// permissions are taken from `like`, permissions and time rather from `attributes`, where these are given.
  /// The file gets no bit that lets it run as somebody else.
  void sync(std::uint64_t bytes = 0, const struct stat* like = nullptr,
            const Attributes* attributes = nullptr);
  /// Gives the file a name that nothing has, or puts it in the place of `old`, which must still be what the
  /// name stands for. `aside`: the name that the old file gets; empty: it will be removed. Names are on the
  /// disk after Directory::sync.
  void put(const std::string& name, const std::optional<struct stat>& old = {},
           const std::string& aside = "");
  /// What put did stays.
  void keep() noexcept;

 private:
  std::string path() const;
  bool is_writable() const { return (mode_ & 0600) == 0600; }

  Place place_;                           ///< none when it is moved from
  std::shared_ptr<Temporary> temporary_;  ///< none when the file has its name
  File file_;
  mode_t mode_ = 0;          ///< after sync, unless sync is told another
  std::string name_;         ///< what the file gets or has
  std::string old_, aside_;  ///< where the old file is, and what it will be called
  bool has_link_ = false;    ///< the old file has the name aside_ already
};

/// Gives a directory its attributes, on the disk. Throws Failure.
void make_as(const Directory& directory, const Attributes& attributes);

/// Whether NewFile gives such names at first.
bool is_temporary(const std::string& name);
/// Renames unless something of that name is there. Throws Failure.
void rename_to_free(const Directory& place, const std::string& from, const Directory& other,
                    const std::string& to);

/// What standard input, output and error are when they are closed: nothing that a file could be taken for.
void fill_standard_streams();
/// From here on Ctrl-C and its like are noted and end the program in end_if_interrupted, which removes the
/// temporary files first. Other threads may still be working.
void note_interrupts();
void end_if_interrupted();

}  // namespace ec::file
