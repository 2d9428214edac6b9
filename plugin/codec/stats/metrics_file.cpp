#include "plugin/codec/stats/metrics_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace ec::codec {
namespace {

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

int replace_file(const std::string& path, std::string_view text) {
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  // Of a process that was killed and had our number.
  unlink(beside.c_str());
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) return -errno;
  int error = write_all(file, text);
  if (error == 0 && fchmod(file, 0644) != 0) error = -errno;
  if (close(file) != 0 && error == 0) error = -errno;
  if (error == 0 && std::rename(beside.c_str(), path.c_str()) != 0) error = -errno;
  if (error != 0) unlink(beside.c_str());
  return error;
}

}  // namespace ec::codec
