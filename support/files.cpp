// Small files: see files.hpp.
#include "support/files.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

namespace ec::support {
namespace {

int fail(int error, std::string* why, const char* what) {
  if (why != nullptr) *why = fmt::format("it cannot be {}: {}", what, std::strerror(error));
  return -error;
}

int refuse(int error, std::string* why, std::string sentence) {
  if (why != nullptr) *why = std::move(sentence);
  return -error;
}

int check(const struct stat& found, Trust trust, std::string* why) {
  if (trust == Trust::anyone) return 0;
  if (found.st_uid != geteuid() && found.st_uid != 0)
    return refuse(
        EPERM, why,
        fmt::format("it belongs to user {}, and only root's or one's own is trusted", found.st_uid));
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return refuse(EPERM, why, "others may write to it (chmod go-w mends that)");
  return 0;
}

/// Reads to the end. The length that the file states may be wrong, or have changed.
int read_all(int fd, std::size_t most, std::string* content) {
  struct stat st {};
  if (fstat(fd, &st) != 0) return -errno;
  const auto size = static_cast<std::size_t>(st.st_size);
  if (size > most) return -EFBIG;
  content->resize(std::min(most, std::max<std::size_t>(size, 4096)) + 1);
  for (std::size_t got = 0;;) {
    const ssize_t n = read(fd, content->data() + got, content->size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    got += static_cast<std::size_t>(n);
    if (got > most) return -EFBIG;
    if (n == 0) {
      content->resize(got);
      return 0;
    }
    if (got == content->size()) content->resize(std::min(2 * got, most + 1));
  }
}

int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n >= 0)
      content.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return -errno;
  }
  return 0;
}

}  // namespace

int open_file(int directory, const std::string& path, Trust trust, Descriptor* file, std::string* why) {
  // O_PATH finds the file and does not open it. The found file is checked, and the same file is opened.
  const Descriptor found(openat(directory, path.c_str(), O_PATH | O_CLOEXEC));
  struct stat st {};
  if (!found || fstat(found.get(), &st) != 0) return fail(errno, why, "opened");
  if (!S_ISREG(st.st_mode)) return refuse(EINVAL, why, "it is not a regular file");
  if (const int error = check(st, trust, why); error != 0) return error;
  *file = Descriptor(open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), O_RDONLY | O_CLOEXEC));
  return *file ? 0 : fail(errno, why, "opened");
}

int read_file(int directory, const std::string& path, Trust trust, std::size_t most, std::string* content,
              std::string* why) {
  Descriptor file;
  if (const int error = open_file(directory, path, trust, &file, why); error != 0) return error;
  const int error = read_all(file.get(), most, content);
  if (error == -EFBIG) return refuse(EFBIG, why, fmt::format("it is larger than {} bytes", most));
  return error == 0 ? 0 : fail(-error, why, "read");
}

int open_directory(const std::string& path, Trust trust, Descriptor* directory, std::string* why) {
  *directory = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!*directory || fstat(directory->get(), &st) != 0) return fail(errno, why, "opened as a directory");
  return check(st, trust, why);
}

int list_directory(int directory, std::vector<std::string>* names) {
  // The standard library's way ends the program where there is no memory.
  const int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return -errno;
  const std::unique_ptr<DIR, decltype([](DIR* dir) { closedir(dir); })> dir(fdopendir(own));
  if (!dir) {
    close(own);
    return -ENOMEM;
  }
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(dir.get());
    if (entry == nullptr) return -errno;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
}

bool may_be_so_long(std::size_t bytes) noexcept {
  struct rlimit limit {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

int write_new_file(int directory, const std::string& path, std::string_view content, mode_t mode) {
  if (!may_be_so_long(content.size())) return -EFBIG;
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const Descriptor file(openat(directory, path.c_str(), flags, mode));
  if (!file) return -errno;
  int error = write_all(file.get(), content);
  if (error == 0 && (fchmod(file.get(), mode) != 0 || fsync(file.get()) != 0)) error = -errno;
  if (error != 0) unlinkat(directory, path.c_str(), 0);
  return error;
}

int replace_file(int directory, const std::string& path, std::string_view content, mode_t mode) {
  // The name has the time too: a process of another PID namespace may share the directory.
  static std::atomic<unsigned> count{0};
  const std::string beside =
      fmt::format("{}.{}.{}-{}.tmp", path, getpid(),
                  std::chrono::system_clock::now().time_since_epoch().count(), count.fetch_add(1));
  if (const int error = write_new_file(directory, beside, content, mode); error != 0) return error;
  if (renameat(directory, beside.c_str(), directory, path.c_str()) == 0) return 0;
  const int error = -errno;
  unlinkat(directory, beside.c_str(), 0);
  return error;
}

}  // namespace ec::support
