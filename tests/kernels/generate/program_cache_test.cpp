#include "kernels/cuda/generate/program_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "gf/generator.hpp"

namespace ec::kernels::cuda {
namespace {

namespace fs = std::filesystem;

class ProgramCacheTest : public ::testing::Test {
 protected:
  ProgramCacheTest() {
    std::string name = (fs::temp_directory_path() / "ec-program-cache-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    root_ = name;
    directory_ = root_ / "deep" / "ec-cuda";
  }
  ~ProgramCacheTest() override { fs::remove_all(root_); }

  static ProgramCache::Cubin cubin(char fill, std::size_t size = 1000) {
    return std::make_shared<const std::vector<char>>(size, fill);
  }
  static std::string key(unsigned k) {
    return program_key(gf::coding_matrix(gf::Technique::cauchy, k, 2), 90, "settings");
  }
  /// A cache that has nothing in memory yet.
  ProgramCache disk() const { return ProgramCache(4, directory_); }

  fs::path root_, directory_;
};

TEST_F(ProgramCacheTest, KeyDependsOnMatrixChipAndSettings) {
  const gf::Matrix matrix = gf::coding_matrix(gf::Technique::cauchy, 4, 2);
  EXPECT_EQ(program_key(matrix, 90, "a"), program_key(matrix, 90, "a"));
  EXPECT_NE(program_key(matrix, 90, "a"), program_key(matrix, 80, "a"));
  EXPECT_NE(program_key(matrix, 90, "a"), program_key(matrix, 90, "b"));
  gf::Matrix other = matrix;
  other(1, 3) ^= 1;
  EXPECT_NE(program_key(matrix, 90, "a"), program_key(other, 90, "a"));
}

TEST_F(ProgramCacheTest, AnotherCacheFindsWhatOneWrote) {
  EXPECT_EQ(disk().find(key(4)), nullptr);
  EXPECT_TRUE(disk().insert(key(4), cubin('x')));
  const auto found = disk().find(key(4));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, *cubin('x'));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);  // no temporary file stays
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(ProgramCacheTest, MemoryIsBoundedAndForgetsTheLeastRecentlyUsed) {
  ProgramCache cache(2, {});
  EXPECT_FALSE(cache.insert(key(4), cubin('a')));  // there is no disk
  EXPECT_FALSE(cache.insert(key(5), cubin('b')));
  EXPECT_NE(cache.find(key(4)), nullptr);
  EXPECT_FALSE(cache.insert(key(6), cubin('c')));
  EXPECT_NE(cache.find(key(4)), nullptr);
  EXPECT_EQ(cache.find(key(5)), nullptr);
  EXPECT_NE(cache.find(key(6)), nullptr);
}

TEST_F(ProgramCacheTest, ADamagedFileIsIgnoredAndReplaced) {
  ASSERT_TRUE(disk().insert(key(4), cubin('x')));
  const fs::path file = directory_ / key(4);
  const auto size = static_cast<long>(fs::file_size(file));
  for (const long at : {0L, 20L, 60L, size / 2, size - 1}) {
    {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(at);
      stream.put('?');
    }
    EXPECT_EQ(disk().find(key(4)), nullptr) << at;
    ASSERT_TRUE(disk().insert(key(4), cubin('x')));
    EXPECT_NE(disk().find(key(4)), nullptr);
  }
  for (const long cut : {0L, 10L, size - 1}) {
    fs::resize_file(file, static_cast<std::uintmax_t>(cut));
    EXPECT_EQ(disk().find(key(4)), nullptr) << cut;
    ASSERT_TRUE(disk().insert(key(4), cubin('x')));
  }
}

TEST_F(ProgramCacheTest, AFileOfAnotherKeyIsIgnored) {
  ASSERT_TRUE(disk().insert(key(4), cubin('x')));
  fs::rename(directory_ / key(4), directory_ / key(5));
  EXPECT_EQ(disk().find(key(5)), nullptr);
}

TEST_F(ProgramCacheTest, ADirectoryThatOthersCanWriteToIsNotUsed) {
  ASSERT_TRUE(disk().insert(key(4), cubin('x')));
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(directory_, fs::perms::owner_all | others);
    EXPECT_EQ(disk().find(key(4)), nullptr);
    EXPECT_FALSE(disk().insert(key(5), cubin('y')));
  }
}

TEST_F(ProgramCacheTest, ALinkInThePlaceOfTheDirectoryOrOfAFileIsNotFollowed) {
  fs::create_directories(root_ / "elsewhere");
  fs::create_directories(directory_.parent_path());
  fs::create_directory_symlink(root_ / "elsewhere", directory_);
  EXPECT_FALSE(disk().insert(key(4), cubin('x')));
  fs::remove(directory_);
  ASSERT_TRUE(disk().insert(key(4), cubin('x')));
  fs::rename(directory_ / key(4), root_ / "file");
  fs::create_symlink(root_ / "file", directory_ / key(4));
  EXPECT_EQ(disk().find(key(4)), nullptr);
  EXPECT_TRUE(disk().insert(key(4), cubin('x')));  // replaces the link
  EXPECT_NE(disk().find(key(4)), nullptr);
}

TEST_F(ProgramCacheTest, ADirectoryThatCannotBeMadeOnlyCostsTheDisk) {
  std::ofstream(root_ / "deep").put('x');  // a file where a directory should be
  ProgramCache cache = disk();
  EXPECT_FALSE(cache.insert(key(4), cubin('x')));
  EXPECT_NE(cache.find(key(4)), nullptr);
}

}  // namespace
}  // namespace ec::kernels::cuda
