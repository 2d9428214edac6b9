#include "tools/ec/disk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

#include "tools/ec/failure.hpp"
#include "tools/ectool/printable.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = ".ec-";
constexpr const char* suffix = ".tmp";

/// What there is to remove when the program is interrupted.
struct Temporaries {
  std::mutex mutex;
  std::set<std::string> paths;
};
Temporaries& temporaries() {
  static Temporaries all;
  return all;
}

volatile std::sig_atomic_t interrupt = 0;

[[noreturn]] void fail_errno(const char* what, const std::string& path) {
  const int error = errno;
  fail(Status::failure, "{} cannot be {}: {}", printable(path), what, std::strerror(error));
}

/// Calls again what a signal interrupts.
template <class Call>
auto retried(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

std::string printable(std::string text) {
  tools::make_printable(text);
  return text;
}

std::size_t read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset, int* error) {
  std::size_t got = 0;
  while (got < bytes.size()) {
    const auto n = retried(
        [&] { return pread(fd, bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got)); });
    if (n < 0) *error = errno;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

std::size_t read_stream(int fd, std::span<std::byte> bytes) {
  std::size_t got = 0;
  while (got < bytes.size()) {
    const auto n = retried([&] { return read(fd, bytes.data() + got, bytes.size() - got); });
    if (n < 0) fail_errno("read", "standard input");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

void write_stream(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = retried([&] { return write(fd, bytes.data(), bytes.size()); });
    if (n < 0) fail_errno("written", "standard output");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

NewFile::NewFile(const fs::path& directory, mode_t mode) {
  std::random_device random;
  temporary_ = directory / fmt::format("{}{:08x}{:08x}{}", prefix, random(), random(), suffix);
  {
    const std::lock_guard lock(temporaries().mutex);
    temporaries().paths.insert(temporary_);
  }
  fd_ = support::Descriptor(open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd_) fail_errno("written to", directory);
}

NewFile::~NewFile() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  const std::lock_guard lock(temporaries().mutex);
  temporaries().paths.erase(temporary_);
}

void NewFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  if (retried([&] { return fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)); }) == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    fail_errno(fmt::format("{} bytes long", bytes).c_str(), temporary_);
}

void NewFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const auto n =
        retried([&] { return pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) fail_errno("written", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void NewFile::sync() {
  if (fsync(fd_.get()) != 0) fail_errno("written", temporary_);
}

void NewFile::put_at(const fs::path& path, bool may_replace) {
  if (!may_replace)
    rename_to_free(temporary_, path);
  else if (rename(temporary_.c_str(), path.c_str()) != 0)
    fail_errno("replaced", path);
  const std::lock_guard lock(temporaries().mutex);
  temporaries().paths.erase(temporary_);
  temporary_.clear();
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with(prefix) && name.ends_with(suffix);
}

void rename_to_free(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  // Not every file system can do that; NFS cannot.
  if ((errno != EINVAL && errno != ENOSYS) || link(from.c_str(), to.c_str()) != 0) fail_errno("made", to);
  unlink(from.c_str());
}

void link_or_rename(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) != 0) rename_to_free(from, to);
}

void sync_directory(const fs::path& directory) {
  const support::Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) fail_errno("opened", directory);
  // There are file systems whose directories have nothing to write.
  if (fsync(fd.get()) != 0 && errno != EINVAL) fail_errno("written", directory);
}

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupt = signal; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // What the parent ignores stays ignored, as with nohup.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
  // A closed pipe and a limit on lengths are errors of the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void end_if_interrupted() {
  if (interrupt == 0) return;
  const int signal = interrupt;
  const std::lock_guard lock(temporaries().mutex);
  for (const auto& path : temporaries().paths) unlink(path.c_str());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace ec::file
