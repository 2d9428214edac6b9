// Files of compiled programs: found as written or not at all, bounded, and nobody else's.
#include "kernels/cuda/generate/program_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace ec::kernels::cuda {
namespace {

namespace fs = std::filesystem;

class ProgramFilesTest : public ::testing::Test {
 protected:
  ProgramFilesTest() {
    std::string name = (fs::temp_directory_path() / "ec-program-files-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    root_ = name;
    directory_ = root_ / "deep" / "ec-cuda";
  }
  ~ProgramFilesTest() override { fs::remove_all(root_); }

  static std::vector<char> cubin(char fill, std::size_t size = 1000) { return std::vector<char>(size, fill); }
  static std::string key(unsigned k) {
    return "NVRTC 13.0 sm_90\n" + std::string(1000, static_cast<char>('a' + k));
  }
  ProgramFiles disk(ProgramFiles::Limits limits = {}) const {
    return ProgramFiles(directory_.string(), limits);
  }
  fs::path file(unsigned k) const { return directory_ / ProgramFiles::file_name(key(k)); }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(directory_), {}); }

  fs::path root_, directory_;
};

TEST_F(ProgramFilesTest, AnotherFindsWhatOneWrote) {
  EXPECT_TRUE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk().write(key(4), cubin('x')));
  EXPECT_EQ(disk().read(key(4)), cubin('x'));
  EXPECT_EQ(files(), 1);  // no temporary file stays
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(ProgramFilesTest, ADamagedFileIsIgnoredAndReplaced) {
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  const fs::path path = file(4);
  const auto size = static_cast<long>(fs::file_size(path));
  // Magic, lengths, key, digest, body: every byte of the head, and some of the body.
  for (long at = 0; at < size; at += at < 200 ? 1 : 97) {
    {
      std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(at);
      stream.put('\xff');
    }
    EXPECT_TRUE(disk().read(key(4)).empty()) << at;
    ASSERT_TRUE(disk().write(key(4), cubin('x')));
    EXPECT_FALSE(disk().read(key(4)).empty());
  }
  for (const long cut : {0L, 10L, 100L, size - 1, size + 1}) {
    fs::resize_file(path, static_cast<std::uintmax_t>(cut));
    EXPECT_TRUE(disk().read(key(4)).empty()) << cut;
    ASSERT_TRUE(disk().write(key(4), cubin('x')));
  }
}

TEST_F(ProgramFilesTest, AFileOfAnotherKeyIsIgnored) {
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  fs::rename(file(4), file(5));
  EXPECT_TRUE(disk().read(key(5)).empty());
}

TEST_F(ProgramFilesTest, AForeignFileIsIgnoredAndReplaced) {
  ASSERT_TRUE(disk().write(key(5), cubin('x')));
  std::ofstream(file(4)) << "not a program";
  EXPECT_TRUE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk().write(key(4), cubin('y')));
  EXPECT_FALSE(disk().read(key(4)).empty());
}

TEST_F(ProgramFilesTest, AFifoOrADirectoryInTheFilesPlaceOnlyMisses) {
  ASSERT_TRUE(disk().write(key(5), cubin('x')));
  ASSERT_EQ(::mkfifo(file(4).c_str(), 0600), 0);
  EXPECT_TRUE(disk().read(key(4)).empty());
  fs::create_directory(file(6));
  EXPECT_TRUE(disk().read(key(6)).empty());
  EXPECT_FALSE(disk().write(key(6), cubin('x')));
  EXPECT_EQ(files(), 3);  // and no temporary file
}

TEST_F(ProgramFilesTest, AnOversizedFileIsNeitherReadNorWritten) {
  ASSERT_TRUE(disk().write(key(4), cubin('x', 5000)));
  EXPECT_FALSE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk({.file_bytes = 4000}).read(key(4)).empty());
  EXPECT_FALSE(disk({.file_bytes = 4000}).write(key(5), cubin('x', 5000)));
  fs::resize_file(file(4), std::uintmax_t{1} << 40);  // sparse
  EXPECT_TRUE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk().write(key(4), cubin('x')));
}

TEST_F(ProgramFilesTest, FilesAreBoundedAndTheLeastRecentlyUsedGo) {
  const ProgramFiles::Limits limits{.files = 3};
  for (unsigned k = 4; k < 7; ++k) {
    ASSERT_TRUE(disk(limits).write(key(k), cubin('x')));
    fs::last_write_time(file(k), fs::file_time_type::clock::now() - std::chrono::hours(24 - k));
  }
  EXPECT_FALSE(disk(limits).read(key(4)).empty());  // used now: no longer the oldest
  EXPECT_TRUE(disk(limits).write(key(7), cubin('x')));
  EXPECT_EQ(files(), 3);
  EXPECT_TRUE(disk(limits).read(key(5)).empty());
  for (unsigned k : {4u, 6u, 7u}) EXPECT_FALSE(disk(limits).read(key(k)).empty()) << k;
}

TEST_F(ProgramFilesTest, BytesOnDiskAreBoundedAndOnlyOwnFilesGo) {
  const ProgramFiles::Limits limits{.bytes = 3500};
  ASSERT_TRUE(disk(limits).write(key(4), cubin('x')));
  std::ofstream(directory_ / "somebody's file") << std::string(10000, 'x');
  for (unsigned k = 5; k < 10; ++k) ASSERT_TRUE(disk(limits).write(key(k), cubin('x')));
  EXPECT_LE(files(), 4);
  EXPECT_TRUE(fs::exists(directory_ / "somebody's file"));
  EXPECT_FALSE(disk(limits).read(key(9)).empty());
}

TEST_F(ProgramFilesTest, AbandonedTemporaryFilesAreRemoved) {
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  const fs::path old = file(5).string() + ".1.0.tmp", fresh = file(5).string() + ".1.1.tmp";
  std::ofstream(old) << "x";
  std::ofstream(fresh) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(disk().write(key(6), cubin('x')));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(ProgramFilesTest, WritersAndReadersMayRace) {
  std::atomic<unsigned> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (unsigned i = 0; i < 50; ++i) {
          const unsigned k = 4 + (t + i) % 3;
          const auto right = cubin(static_cast<char>('a' + k), 20000);
          if (i % 2 == 0) disk({.files = 2}).write(key(k), right);
          const auto found = disk().read(key(k));
          if (!found.empty() && found != right) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(disk({.files = 2}).write(key(4), cubin('e', 20000)));
  EXPECT_EQ(files(), 2);  // no temporary file stays
}

TEST_F(ProgramFilesTest, AReadOnlyOrForeignDirectoryIsNotWritten) {
  if (::geteuid() == 0) {
    // Root writes where modes say otherwise; what it does not trust is another's directory.
    ASSERT_TRUE(disk().write(key(4), cubin('x')));
    ASSERT_EQ(::chown(directory_.c_str(), 1, 1), 0);
    EXPECT_TRUE(disk().read(key(4)).empty());
  } else {
    ASSERT_TRUE(disk().write(key(4), cubin('x')));
    fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_FALSE(disk().read(key(4)).empty());
  }
  EXPECT_FALSE(disk().write(key(5), cubin('y')));
  fs::permissions(directory_, fs::perms::owner_all);
  EXPECT_EQ(files(), 1);
}

TEST_F(ProgramFilesTest, NoMoreThanTheDirectoryAndItsParentAreMade) {
  directory_ = root_ / "no" / "such" / "home";
  EXPECT_FALSE(disk().write(key(4), cubin('x')));
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST(DefaultCacheDirectory, FollowsTheEnvironment) {
  const auto with = [](const char* cache, const char* home) {
    cache != nullptr ? ::setenv("XDG_CACHE_HOME", cache, 1) : ::unsetenv("XDG_CACHE_HOME");
    home != nullptr ? ::setenv("HOME", home, 1) : ::unsetenv("HOME");
    return default_cache_directory();
  };
  const char* home = std::getenv("HOME");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::string home_before = home != nullptr ? home : "", cache_before = cache != nullptr ? cache : "";
  EXPECT_EQ(with("/c", "/h"), "/c/ec_cuda");
  EXPECT_EQ(with(nullptr, "/h"), "/h/.cache/ec_cuda");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/ec_cuda");
  EXPECT_EQ(with("", nullptr), "");
  EXPECT_EQ(with(nullptr, nullptr), "");
  with(cache != nullptr ? cache_before.c_str() : nullptr, home != nullptr ? home_before.c_str() : nullptr);
}

TEST_F(ProgramFilesTest, ADirectoryThatOthersCanWriteToIsNotUsed) {
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(directory_, fs::perms::owner_all | others);
    EXPECT_TRUE(disk().read(key(4)).empty());
    EXPECT_FALSE(disk().write(key(5), cubin('y')));
  }
}

TEST_F(ProgramFilesTest, AFileOfAnotherUserOrThatOthersCanWriteToIsNotRead) {
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(file(4), fs::perms::owner_read | fs::perms::owner_write | others);
    EXPECT_TRUE(disk().read(key(4)).empty());
  }
  fs::permissions(file(4), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(disk().read(key(4)).empty());
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(::chown(file(4).c_str(), 1, 1), 0);
  EXPECT_TRUE(disk().read(key(4)).empty());
}

TEST_F(ProgramFilesTest, ALinkInThePlaceOfTheDirectoryOrOfAFileIsNotFollowed) {
  fs::create_directories(root_ / "elsewhere");
  fs::create_directories(directory_.parent_path());
  fs::create_directory_symlink(root_ / "elsewhere", directory_);
  EXPECT_FALSE(disk().write(key(4), cubin('x')));
  fs::remove(directory_);
  ASSERT_TRUE(disk().write(key(4), cubin('x')));
  fs::rename(file(4), root_ / "file");
  fs::create_symlink(root_ / "file", file(4));
  EXPECT_TRUE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk().write(key(4), cubin('x')));  // replaces the link
  EXPECT_FALSE(disk().read(key(4)).empty());
}

TEST_F(ProgramFilesTest, ADirectoryThatCannotBeMadeOnlyCostsTheFiles) {
  std::ofstream(root_ / "deep").put('x');  // a file where a directory should be
  EXPECT_FALSE(disk().write(key(4), cubin('x')));
  EXPECT_TRUE(disk().read(key(4)).empty());
}

}  // namespace
}  // namespace ec::kernels::cuda
