#include "support/files.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ec::support {
namespace {

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

int open_directory(const std::string& path, Descriptor* directory, std::string* why) {
  *directory = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!*directory || fstat(directory->get(), &found) != 0) {
    const int error = errno;
    *why = fmt::format("it cannot be opened as a directory: {}", std::strerror(error));
    return -error;
  }
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    *why = fmt::format("it belongs to user {}, and only root's or one's own is trusted", found.st_uid);
    return -EPERM;
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    *why = "others may write to it (chmod go-w mends that)";
    return -EPERM;
  }
  return 0;
}

int visit_directory(int directory, const std::function<bool(const char*)>& visit) {
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
    if (name != "." && name != ".." && !visit(entry->d_name)) return 0;
  }
}

int list_directory(int directory, std::vector<std::string>* names) {
  return visit_directory(directory, [&](const char* name) {
    names->emplace_back(name);
    return true;
  });
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
