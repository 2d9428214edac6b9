#include "kernels/cuda/generate/program_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace ec::kernels::cuda {
namespace {

constexpr std::string_view magic = "ec-cuda program 1\n";
constexpr std::string_view program_suffix = ".cubin", temporary_suffix = ".tmp";
constexpr std::size_t digest_size = 36;
constexpr std::time_t abandoned_after = 3600;  // seconds until a temporary file has lost its writer

/// SHA-1 as a name-based UUID, 36 characters: of what Boost offers header-only and in public the strongest.
std::string digest(std::string_view bytes) {
  return boost::uuids::to_string(
      boost::uuids::name_generator_sha1(boost::uuids::ns::oid())(bytes.data(), bytes.size()));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

bool ours(const struct stat& s, mode_t type) {
  return (s.st_mode & S_IFMT) == type && s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The directory, checked as opened: what its name stands for may change, what is open may not.
int open_directory(const std::string& path) {
  if (path.empty()) return -1;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat s {};
  if (fd < 0 || (::fstat(fd, &s) == 0 && ours(s, S_IFDIR))) return fd;
  ::close(fd);
  return -1;
}

void make_directory(const std::string& path) {
  if (const auto slash = path.rfind('/'); slash != std::string::npos && slash > 0)
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  ::mkdir(path.c_str(), 0700);
}

std::size_t header_size(std::string_view key) {
  return magic.size() + 8 + 1 + 12 + 1 + key.size() + 1 + digest_size + 1;
}

bool read_all(int fd, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t n = ::read(fd, to, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

struct File {
  std::string name;
  std::uint64_t bytes;
  timespec used;
};

bool older(const File& a, const File& b) {
  return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
}

/// The programs in the directory. Temporary files that nobody can be writing any more are removed on the way.
std::vector<File> programs_in(int directory) {
  std::vector<File> files;
  const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (!entries) {
    if (fd >= 0) ::close(fd);
    return files;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    const bool program = name.size() == digest_size + program_suffix.size() && name.ends_with(program_suffix);
    const bool temporary = name.size() > digest_size && name.ends_with(temporary_suffix);
    struct stat s {};
    if ((!program && !temporary) || ::fstatat(directory, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(s.st_mode))
      continue;
    if (program)
      files.push_back({std::string(name), static_cast<std::uint64_t>(s.st_size), s.st_mtim});
    else if (std::time(nullptr) - s.st_mtime > abandoned_after)
      ::unlinkat(directory, entry->d_name, 0);
  }
  return files;
}

}  // namespace

// The size of it depends on nothing but the key's.
std::string program_header(std::string_view key, std::string_view body) {
  std::string text = fmt::format("{}{:08} {:012}\n{}\n", magic, key.size(), body.size(), key);
  return text + digest(text + std::string(body)) + '\n';
}

std::vector<char> program_body(std::string_view file, std::string_view key) {
  if (file.size() <= header_size(key)) return {};
  const std::string_view body = file.substr(header_size(key));
  if (!file.starts_with(program_header(key, body))) return {};
  return {body.begin(), body.end()};
}

std::string default_cache_directory() {
  if (const char* cache = ::secure_getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return std::string(cache) + "/ec_cuda";
  if (const char* home = ::secure_getenv("HOME"); home != nullptr && home[0] == '/')
    return std::string(home) + "/.cache/ec_cuda";
  return {};
}

std::string ProgramFiles::file_name(std::string_view key) {
  return digest(key) + std::string(program_suffix);
}

std::vector<char> ProgramFiles::read(std::string_view key) const {
  const Descriptor directory(open_directory(directory_));
  if (!directory) return {};
  // O_NONBLOCK: a FIFO in the file's place must not keep us waiting.
  const Descriptor file(::openat(directory.get(), file_name(key).c_str(),
                                 O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat s {};
  if (!file || ::fstat(file.get(), &s) != 0 || !ours(s, S_IFREG)) return {};
  if (s.st_size <= 0 || static_cast<std::uint64_t>(s.st_size) > limits_.file_bytes) return {};
  std::string bytes(static_cast<std::size_t>(s.st_size), '\0');
  if (!read_all(file.get(), bytes.data(), bytes.size())) return {};
  std::vector<char> body = program_body(bytes, key);
  if (!body.empty()) ::futimens(file.get(), nullptr);  // used now; where that fails, age counts from writing
  return body;
}

bool ProgramFiles::write(std::string_view key, const std::vector<char>& cubin) const {
  const std::string_view body(cubin.data(), cubin.size());
  const std::string head = program_header(key, body);
  if (directory_.empty() || head.size() + body.size() > limits_.file_bytes) return false;
  make_directory(directory_);
  const Descriptor directory(open_directory(directory_));
  if (!directory) return false;
  static std::atomic<unsigned> count{0};
  const std::string name = file_name(key);
  const std::string temporary = fmt::format("{}.{}.{}{}", name, ::getpid(), count++, temporary_suffix);
  bool written = false;
  {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const Descriptor file(::openat(directory.get(), temporary.c_str(), flags, 0600));
    if (!file) return false;
    written = write_all(file.get(), head) && write_all(file.get(), body);
  }
  if (!written || ::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0) {
    ::unlinkat(directory.get(), temporary.c_str(), 0);
    return false;
  }
  remove_oldest(directory.get());
  return true;
}

void ProgramFiles::remove_oldest(int directory) const {
  std::vector<File> files = programs_in(directory);
  std::uint64_t bytes = 0;
  for (const File& f : files) bytes += f.bytes;
  std::ranges::sort(files, older);
  std::size_t count = files.size();
  for (const File& f : files) {
    if (count <= limits_.files && bytes <= limits_.bytes) break;
    ::unlinkat(directory, f.name.c_str(), 0);
    --count;
    bytes -= f.bytes;
  }
}

}  // namespace ec::kernels::cuda
