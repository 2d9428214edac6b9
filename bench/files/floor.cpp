// ec_files_floor FILE DIRECTORY: what `ec create -k 10 -m 4` does to a file but for the coding: reads it,
// hashes 14 blocks of a stripe, writes 14 files. The bytes of the last four are those of the first. For
// bench/files/compare.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace {

constexpr unsigned k = 10, n = 14;
constexpr std::size_t record = 65536, block = record - 16, stride = record + 64;

void check(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

void work(int from, const std::array<int, n>& to, std::uint64_t stripes, std::atomic<std::uint64_t>& next) {
  const std::size_t bytes = n * stride;
  auto* buffer = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  check(buffer != nullptr, "memory");
  for (std::uint64_t stripe = next++; stripe < stripes; stripe = next++) {
    for (unsigned i = 0; i < k; ++i)
      check(pread(from, buffer + i * stride, block, static_cast<off_t>((stripe * k + i) * block)) >= 0,
            "read");
    for (unsigned i = 0; i < n; ++i) {
      char* at = buffer + i * stride;
      XXH128_canonicalFromHash(reinterpret_cast<XXH128_canonical_t*>(at + block),
                               XXH3_128bits_withSeed(at, block, stripe));
      check(pwrite(to[i], at, record, static_cast<off_t>(4096 + stripe * record)) == record, "write");
    }
  }
  std::free(buffer);
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 3, "usage: ec_files_floor FILE DIRECTORY");
  const int from = open(argv[1], O_RDONLY | O_CLOEXEC);
  struct stat st {};
  check(from >= 0 && fstat(from, &st) == 0, argv[1]);
  const auto stripes = (static_cast<std::uint64_t>(st.st_size) + k * block - 1) / (k * block);
  std::array<int, n> to{};
  for (unsigned i = 0; i < n; ++i) {
    to[i] = open((argv[2] + ("/floor." + std::to_string(i))).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                 0644);
    check(to[i] >= 0, "open");
    check(fallocate(to[i], 0, 0, static_cast<off_t>(8192 + stripes * record)) == 0, "fallocate");
  }
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    threads.emplace_back([&] { work(from, to, stripes, next); });
  threads.clear();
  for (const int fd : to) check(fsync(fd) == 0, "fsync");
}
