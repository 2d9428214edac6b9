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
#include <utility>

#include "support/files.hpp"

namespace ec::kernels::cuda {
namespace {

using support::Descriptor;

constexpr std::string_view magic = "ec-cuda program 1\n";
constexpr std::string_view program_suffix = ".cubin", temporary_suffix = ".tmp";
constexpr std::size_t digest_size = 36;
constexpr std::time_t abandoned_after = 3600;  // seconds until a temporary file has lost its writer

/// SHA-1 as a name-based UUID, 36 characters: of what Boost offers header-only and in public the strongest.
std::string digest(std::string_view bytes) {
  return boost::uuids::to_string(
      boost::uuids::name_generator_sha1(boost::uuids::ns::oid())(bytes.data(), bytes.size()));
}

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

std::size_t header_size(std::string_view key) {
  return magic.size() + 8 + 1 + 12 + 1 + key.size() + 1 + digest_size + 1;
}

struct File {
  std::string name;
  std::uint64_t bytes;
  timespec used;
};

bool older(const File& a, const File& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

/// The programs in the directory. Temporary files that nobody can be writing any more are removed on the way.
std::vector<File> programs_in(int directory) {
  std::vector<std::string> names;
  std::vector<File> files;
  support::list_directory(directory, &names);
  for (std::string& name : names) {
    const bool program = name.size() == digest_size + program_suffix.size() && name.ends_with(program_suffix);
    const bool temporary = name.size() > digest_size && name.ends_with(temporary_suffix);
    struct stat s {};
    if ((!program && !temporary) || ::fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(s.st_mode))
      continue;
    if (program)
      files.push_back({std::move(name), static_cast<std::uint64_t>(s.st_size), s.st_mtim});
    else if (std::time(nullptr) - s.st_mtime > abandoned_after)
      ::unlinkat(directory, name.c_str(), 0);
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
  const Descriptor directory = open_ours(directory_);
  const std::string name = file_name(key);
  std::string bytes;
  if (!directory || support::read_file(directory.get(), name, support::Trust::self, limits_.file_bytes,
                                       &bytes, nullptr) != 0)
    return {};
  std::vector<char> body = program_body(bytes, key);
  // Used now. Where that fails, age counts from writing.
  if (!body.empty()) ::utimensat(directory.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return body;
}

bool ProgramFiles::write(std::string_view key, const std::vector<char>& cubin) const {
  const std::string_view body(cubin.data(), cubin.size());
  std::string content = program_header(key, body);
  if (directory_.empty() || content.size() + body.size() > limits_.file_bytes) return false;
  content += body;
  make_directory(directory_);
  const Descriptor directory = open_ours(directory_);
  if (!directory ||
      support::replace_file(directory.get(), file_name(key), content, 0600, support::Sync::no) != 0)
    return false;
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
