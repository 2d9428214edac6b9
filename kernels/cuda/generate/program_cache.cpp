#include "kernels/cuda/generate/program_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstdlib>
#include <system_error>

namespace ec::kernels::cuda {
namespace {

constexpr std::string_view magic = "ec-cuda program\n";

/// SHA-1 in the form of a name-based UUID: 36 characters.
std::string digest(std::string_view bytes) {
  static const boost::uuids::name_generator_sha1 generator(boost::uuids::ns::oid());
  return boost::uuids::to_string(generator(bytes.data(), bytes.size()));
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

bool ours(int fd, mode_t type) {
  struct stat s {};
  return ::fstat(fd, &s) == 0 && (s.st_mode & S_IFMT) == type && s.st_uid == ::geteuid() &&
         (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The directory, opened once and checked as opened: what it is called may change, what it is may not.
int open_directory(const std::filesystem::path& path) {
  if (path.empty()) return -1;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || ours(fd, S_IFDIR)) return fd;
  ::close(fd);
  return -1;
}

std::string header(const std::string& key, std::string_view body) {
  return fmt::format("{}{}\n{}\n", magic, key, digest(body));
}

std::string read_all(int fd) {
  std::string bytes;
  char part[1 << 16];
  ssize_t n = 0;
  while ((n = ::read(fd, part, sizeof part)) > 0) bytes.append(part, static_cast<std::size_t>(n));
  return n == 0 ? bytes : std::string();
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

ProgramCache::Cubin read_program(const std::filesystem::path& path, const std::string& key) {
  const Descriptor directory(open_directory(path));
  if (!directory) return nullptr;
  const Descriptor file(
      ::openat(directory.get(), key.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file || !ours(file.get(), S_IFREG)) return nullptr;
  const std::string bytes = read_all(file.get());
  const std::size_t header_size = magic.size() + key.size() + 1 + 36 + 1;
  if (bytes.size() <= header_size) return nullptr;
  const std::string_view body = std::string_view(bytes).substr(header_size);
  if (bytes.compare(0, header_size, header(key, body)) != 0) return nullptr;
  return std::make_shared<const std::vector<char>>(body.begin(), body.end());
}

bool write_program(const std::filesystem::path& path, const std::string& key,
                   const std::vector<char>& cubin) {
  if (path.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  ::mkdir(path.c_str(), 0700);
  const Descriptor directory(open_directory(path));
  if (!directory) return false;
  static std::atomic<unsigned> count{0};
  const std::string temporary = fmt::format(".{}.{}.{}", key, ::getpid(), count++);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  bool written = false;
  {
    const Descriptor file(::openat(directory.get(), temporary.c_str(), flags, 0600));
    if (!file) return false;
    const std::string_view body(cubin.data(), cubin.size());
    written = write_all(file.get(), header(key, body)) && write_all(file.get(), body);
  }
  if (written && ::renameat(directory.get(), temporary.c_str(), directory.get(), key.c_str()) == 0)
    return true;
  ::unlinkat(directory.get(), temporary.c_str(), 0);
  return false;
}

}  // namespace

std::string program_key(const gf::Matrix& matrix, unsigned chip, std::string_view settings) {
  std::string text =
      fmt::format("v{} sm_{} {}x{} {}\n", generator_version, chip, matrix.rows(), matrix.cols(), settings);
  text.append(matrix.cells().begin(), matrix.cells().end());
  return digest(text);
}

std::filesystem::path default_cache_directory() {
  // A relative XDG_CACHE_HOME is to be ignored, by the specification.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return std::filesystem::path(cache) / "ec-cuda";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return std::filesystem::path(home) / ".cache" / "ec-cuda";
  return {};
}

ProgramCache::Cubin ProgramCache::find(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto there = at_.find(key); there != at_.end()) {
      recent_.splice(recent_.begin(), recent_, there->second);
      return there->second->cubin;
    }
  }
  Cubin cubin = read_program(directory_, key);
  if (cubin) remember(key, cubin);
  return cubin;
}

bool ProgramCache::insert(const std::string& key, Cubin cubin) {
  remember(key, cubin);
  return write_program(directory_, key, *cubin);
}

void ProgramCache::remember(const std::string& key, Cubin cubin) {
  const std::lock_guard lock(mutex_);
  if (const auto there = at_.find(key); there != at_.end()) {
    there->second->cubin = std::move(cubin);
    recent_.splice(recent_.begin(), recent_, there->second);
    return;
  }
  recent_.push_front({key, std::move(cubin)});
  at_[key] = recent_.begin();
  if (recent_.size() > capacity_) {
    at_.erase(recent_.back().key);
    recent_.pop_back();
  }
}

}  // namespace ec::kernels::cuda
