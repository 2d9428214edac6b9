// The cache of compiled programs on disk: see program_files.hpp.
#include "kernels/cuda/generate/program_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "support/files.hpp"

namespace ec::kernels::cuda {
namespace {

using support::Descriptor;

constexpr std::string_view suffix = ".cubin";
constexpr std::size_t digest_size = 36;
constexpr std::size_t header_size = digest_size + 1;

/// SHA-1 as a name-based UUID, 36 characters: of what Boost offers header-only and in public the strongest.
std::string digest(std::string_view bytes) {
  return boost::uuids::to_string(
      boost::uuids::name_generator_sha1(boost::uuids::ns::oid())(bytes.data(), bytes.size()));
}

/// None if it is not there, or not ours.
Descriptor open_ours(const std::string& path) {
  Descriptor directory;
  const bool ours =
      !path.empty() && support::open_directory(path, support::Trust::self, &directory, nullptr) == 0;
  return ours ? std::move(directory) : Descriptor();
}

void make_directory(const std::string& path) {
  if (const auto slash = path.rfind('/'); slash != std::string::npos && slash > 0)
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  ::mkdir(path.c_str(), 0700);
}

}  // namespace

std::string program_header(std::string_view key, std::string_view body) {
  return digest(fmt::format("{} {}{}", key.size(), key, body)) + '\n';
}

std::string program_body(std::string_view file, std::string_view key) {
  if (file.size() <= header_size) return {};
  const std::string_view body = file.substr(header_size);
  return file.starts_with(program_header(key, body)) ? std::string(body) : std::string();
}

std::string default_cache_directory() {
  if (const char* cache = ::secure_getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/')
    return std::string(cache) + "/ec_cuda";
  if (const char* home = ::secure_getenv("HOME"); home != nullptr && home[0] == '/')
    return std::string(home) + "/.cache/ec_cuda";
  return {};
}

std::string ProgramFiles::file_name(std::string_view key) { return digest(key) + std::string(suffix); }

std::string ProgramFiles::read(std::string_view key) const {
  const Descriptor directory = open_ours(directory_);
  const std::string name = file_name(key);
  std::string bytes;
  if (!directory || support::read_file(directory.get(), name, support::Trust::self, limits_.file_bytes,
                                       &bytes, nullptr) != 0)
    return {};
  std::string body = program_body(bytes, key);
  // Used now. Where that fails, age counts from writing.
  if (!body.empty()) ::utimensat(directory.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return body;
}

bool ProgramFiles::write(std::string_view key, std::string_view body) const {
  if (directory_.empty() || header_size + body.size() > limits_.file_bytes) return false;
  make_directory(directory_);
  const Descriptor directory = open_ours(directory_);
  if (!directory ||
      support::replace_file(directory.get(), file_name(key), program_header(key, body) + std::string(body),
                            0600, support::Sync::no) != 0)
    return false;
  remove_oldest(directory.get());
  return true;
}

void ProgramFiles::remove_oldest(int directory) const {
  struct File {
    std::string name;
    std::uint64_t bytes;
    std::pair<std::time_t, long> used;
  };
  std::vector<std::string> names;
  std::vector<File> files;
  support::list_directory(directory, &names);
  for (const std::string& name : names) {
    struct stat s {};
    // Also what a writer that was killed has left: "<name>.<numbers>.tmp".
    if (name.find(suffix) == digest_size &&
        ::fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode))
      files.push_back({name, static_cast<std::uint64_t>(s.st_size), {s.st_mtim.tv_sec, s.st_mtim.tv_nsec}});
  }
  std::ranges::sort(files, std::greater(), &File::used);
  std::uint64_t bytes = 0;
  for (const File& file : files)
    if ((bytes += file.bytes) > limits_.bytes) ::unlinkat(directory, file.name.c_str(), 0);
}

}  // namespace ec::kernels::cuda
