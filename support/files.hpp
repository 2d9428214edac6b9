// Small files that a process writes by itself: whole or not at all, and only where nobody else can put them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ec::support {

/// Owns a descriptor, which may be none (negative).
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

// Functions that return int return 0 or -errno, and throw std::bad_alloc alone. A path is taken from
// `directory`, an open one or AT_FDCWD.

/// Opens a directory of root or the effective user that nobody else may write to, not a link to one, and
/// checks the open directory: a name may come to stand for another directory, an open descriptor may not.
/// why: gets one sentence about a failure. -EPERM: the directory is not to be trusted.
int open_directory(const std::string& path, Descriptor* directory, std::string* why);

/// visit(name) for the names in an open directory, without . and .., until it returns false.
int visit_directory(int directory, const std::function<bool(const char* name)>& visit);
/// All these names.
int list_directory(int directory, std::vector<std::string>* names);

/// Whether RLIMIT_FSIZE lets this process make a file of so many bytes. Writing beyond the limit ends the
/// process by SIGXFSZ, unless the signal is caught.
bool may_be_so_long(std::size_t bytes) noexcept;

/// Makes a file of this mode, whatever the umask is, with this content. -EEXIST: something of that name is
/// there. -EFBIG: more than the process may write. On any error no file is left; otherwise the content is on
/// the disk when this returns.
int write_new_file(int directory, const std::string& path, std::string_view content, mode_t mode);

/// Puts such a file in the place of the old one: it is written as "<path>.<PID>.<numbers>.tmp" and renamed,
/// so that readers find the old file or the new one, whole. On an error the old file is there. A process that
/// is killed may leave the temporary file.
int replace_file(int directory, const std::string& path, std::string_view content, mode_t mode);

}  // namespace ec::support
