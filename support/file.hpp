// File descriptors, for the few small files that a process reads and writes by itself.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace ec::codec {

/// Owns a descriptor, which may be none (negative).
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// Reads to the end of the file, but no more than `most` bytes: it may grow meanwhile. 0 or an errno.
int read_up_to(std::size_t most, int fd, std::string* text);

/// 0, or the errno with which writing ended early.
int write_all(int fd, std::string_view text);

}  // namespace ec::codec
