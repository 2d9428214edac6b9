// Files of compiled programs: found as written or not at all, bounded, and nobody else's.
#include "kernels/cuda/generate/program_files.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/common/folder.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using kernels::cuda::ProgramFiles;

const std::string cubin(1000, 'x');

std::string key(unsigned k) { return "NVRTC 13.0 sm_90\n" + std::string(1000, static_cast<char>('a' + k)); }

class ProgramFilesTest : public testing::Test {
 protected:
  ProgramFiles disk(ProgramFiles::Limits limits = {}) const { return {directory_.string(), limits}; }
  bool found(unsigned k) const { return disk().read(key(k)) == cubin; }
  fs::path file(unsigned k) const { return directory_ / ProgramFiles::file_name(key(k)); }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(directory_), {}); }
  void age(const fs::path& path, int hours) const {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  const Folder root_;
  fs::path directory_ = fs::path(root_.path()) / "deep" / "ec-cuda";
};

TEST_F(ProgramFilesTest, AnotherFindsWhatOneWrote) {
  EXPECT_TRUE(disk().read(key(4)).empty());
  EXPECT_TRUE(disk().write(key(4), cubin));
  EXPECT_TRUE(found(4));
  EXPECT_EQ(files(), 1);  // no temporary file stays
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(ProgramFilesTest, WhatIsNotAsWrittenIsIgnoredAndReplaced) {
  ASSERT_TRUE(disk().write(key(4), cubin));
  const auto expect_replaced = [&](const std::string& what) {
    EXPECT_TRUE(disk().read(key(4)).empty()) << what;
    ASSERT_TRUE(disk().write(key(4), cubin)) << what;
    EXPECT_TRUE(found(4)) << what;
  };
  const auto size = static_cast<long>(fs::file_size(file(4)));
  for (long at = 0; at < size; at += at < 50 ? 1 : 97) {
    std::fstream(file(4), std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('\xff');
    expect_replaced("byte " + std::to_string(at));
  }
  // The last one is sparse: too large to be read.
  for (const long cut : {0L, 10L, 36L, 37L, size - 1, size + 1, 1L << 40}) {
    fs::resize_file(file(4), static_cast<std::uintmax_t>(cut));
    expect_replaced("cut to " + std::to_string(cut));
  }
  ASSERT_TRUE(disk().write(key(5), cubin));
  fs::rename(file(5), file(4));
  expect_replaced("another key's");
  fs::rename(file(4), root_ / "file");
  fs::create_symlink(root_ / "file", file(4));
  expect_replaced("a link");
  fs::permissions(file(4), fs::perms::others_write, fs::perm_options::add);
  expect_replaced("others may write to it");
  EXPECT_EQ(files(), 1);
}

TEST_F(ProgramFilesTest, ADirectoryThatIsNotOursOnlyOrCannotBeMadeIsNotUsed) {
  ASSERT_TRUE(disk().write(key(4), cubin));
  fs::permissions(directory_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(found(4));
  EXPECT_FALSE(disk().write(key(5), cubin));
  fs::permissions(directory_, fs::perms::group_write, fs::perm_options::remove);
  fs::create_directory_symlink(directory_, root_ / "link");
  directory_ = root_ / "link";
  EXPECT_FALSE(found(4));
  EXPECT_FALSE(disk().write(key(5), cubin));
  directory_ = root_ / "no/such/home";  // no more than the directory and its parent are made
  EXPECT_FALSE(disk().write(key(4), cubin));
  EXPECT_FALSE(fs::exists(root_ / "no"));
}

TEST_F(ProgramFilesTest, BytesAreBoundedAndTheLeastRecentlyUsedOfOursGo) {
  EXPECT_FALSE(disk({.file_bytes = 900}).write(key(4), cubin));
  for (unsigned k = 4; k < 7; ++k) {
    ASSERT_TRUE(disk().write(key(k), cubin));
    age(file(k), static_cast<int>(24 - k));
  }
  const fs::path left = file(9).string() + ".1.0.tmp";  // by a writer that was killed
  std::ofstream(left) << std::string(1000, 'x');
  age(left, 48);
  std::ofstream(directory_ / "somebody's file") << std::string(10000, 'x');
  EXPECT_TRUE(found(4));  // used now: no longer the oldest
  ASSERT_TRUE(disk({.bytes = 3500}).write(key(7), cubin));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(found(5));
  for (const unsigned k : {4u, 6u, 7u}) EXPECT_TRUE(found(k)) << k;
  EXPECT_EQ(files(), 4);
}

TEST_F(ProgramFilesTest, WritersAndReadersMayRace) {
  std::atomic<unsigned> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (unsigned i = 0; i < 50; ++i) {
          const unsigned k = 4 + (t + i) % 3;
          const std::string right(20000, static_cast<char>('a' + k));
          if (i % 2 == 0) disk({.bytes = 45'000}).write(key(k), right);
          const auto there = disk().read(key(k));
          if (!there.empty() && there != right) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(disk({.bytes = 45'000}).write(key(4), std::string(20000, 'e')));
  EXPECT_EQ(files(), 2);  // no temporary file stays
}

TEST(DefaultCacheDirectory, FollowsTheEnvironment) {
  const auto set = [](const char* variable, const char* value) {
    value != nullptr ? setenv(variable, value, 1) : unsetenv(variable);
  };
  const char* before[] = {std::getenv("HOME"), std::getenv("XDG_CACHE_HOME")};
  const std::string kept[] = {before[0] == nullptr ? "" : before[0], before[1] == nullptr ? "" : before[1]};
  for (const auto& [cache, home, directory] :
       {std::tuple<const char*, const char*, const char*>{"/c", "/h", "/c/ec_cuda"},
        {nullptr, "/h", "/h/.cache/ec_cuda"},
        {"relative", "/h", "/h/.cache/ec_cuda"},
        {"", nullptr, ""},
        {nullptr, nullptr, ""}}) {
    set("XDG_CACHE_HOME", cache);
    set("HOME", home);
    EXPECT_EQ(kernels::cuda::default_cache_directory(), directory);
  }
  set("HOME", before[0] == nullptr ? nullptr : kept[0].c_str());
  set("XDG_CACHE_HOME", before[1] == nullptr ? nullptr : kept[1].c_str());
}

}  // namespace
}  // namespace ec::test
