// The file of a mismatch: what is written is read, in a directory that is ours, and anything else is refused.
#include "plugin/codec/checking/reproducer.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/common/folder.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using codec::Reproducer;

Reproducer sample(bool accumulate, unsigned sources = 3, unsigned targets = 2, unsigned block = 100) {
  Random random(7);
  Reproducer r;
  r.head.verb = accumulate ? 1 : 0;
  r.head.sources = sources;
  r.head.targets = targets;
  r.head.block_bytes = block;
  r.head.block_offset = 5900;
  r.head.chunk_bytes = 10'000;
  r.head.stripes = 3;
  r.head.backend = {'x', '8', '6'};
  r.head.judge = {'i', 's', 'a', 'l'};
  const auto add = [&](const std::vector<std::uint8_t>& bytes) {
    r.behind.append(bytes.begin(), bytes.end());
  };
  for (unsigned i = 0; i < sources; ++i) add({1, 0, static_cast<std::uint8_t>(i), 0});
  for (unsigned i = 0; i < targets; ++i) add({0, 0, 0xff, 0x0f});
  add(random.bytes(std::size_t{sources} * targets + (sources + (accumulate ? 3 : 2) * targets) * block));
  return r;
}

/// Why a file is refused; empty if it is not.
std::string refusal(const std::string& file) {
  std::string why;
  return codec::parse_reproducer(file, &why) ? std::string() : why;
}

TEST(Reproducer, IsReadAsItWasWritten) {
  for (const bool accumulate : {false, true})
    for (const auto& [sources, targets, block] :
         {std::tuple{1u, 1u, 1u}, {3u, 2u, 100u}, {255u, 8u, 4096u}, {255u, 255u, 128u}}) {
      const Reproducer r = sample(accumulate, sources, targets, block);
      std::string why;
      const auto file = to_file(r);
      EXPECT_LT(file.size(), codec::largest_reproducer);
      const auto read = codec::parse_reproducer(file, &why);
      ASSERT_TRUE(read) << why;
      EXPECT_EQ(*read, r);
    }
}

TEST(Reproducer, WhatCannotBeIsRefusedByName) {
  struct Row {
    const char* name;
    std::size_t offset, bytes;  // in the head
    std::vector<std::uint64_t> wrong;
    std::string range;
  };
  using Head = Reproducer::Head;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max(), four_gib = std::uint64_t{1} << 32;
  const Row rows[] = {
      {"verb", offsetof(Head, verb), 4, {2, most}, "from 0 to 1"},
      {"sources", offsetof(Head, sources), 4, {0, 256, most}, "from 1 to 255"},
      {"targets", offsetof(Head, targets), 4, {0, 256, most}, "from 1 to 255"},
      {"chunk_bytes", offsetof(Head, chunk_bytes), 8, {0, four_gib + 1, most}, "from 1 to 4294967296"},
      {"stripes", offsetof(Head, stripes), 8, {0, four_gib + 1, most}, "from 1 to 4294967296"},
      {"block_bytes", offsetof(Head, block_bytes), 4, {0, 4097, most}, "from 1 to 4096"},
      {"block_offset", offsetof(Head, block_offset), 8, {9901, most}, "from 0 to 9900"},
  };
  const std::string right = to_file(sample(true));
  const auto with = [&](std::size_t offset, std::size_t bytes, std::uint64_t value) {
    std::string file = right;
    std::memcpy(file.data() + offset, &value, bytes);
    return file;
  };
  for (const Row& row : rows)
    for (const std::uint64_t value : row.wrong)
      EXPECT_EQ(refusal(with(row.offset, row.bytes, value)),
                row.name + (" must be a whole number " + row.range));
  EXPECT_EQ(refusal(with(sizeof(Head), 2, 3)), "residence must be a whole number from 0 to 2");
  EXPECT_EQ(refusal(with(sizeof(Head) + 4 * 4 + 2, 2, 4096)),
            "misalignment must be a whole number from 0 to 4095");
  // Of another shape than what follows.
  const std::string length = "it has 1006 bytes, and must have ";
  EXPECT_EQ(refusal(with(offsetof(Head, verb), 4, 0)), length + "806");
  EXPECT_EQ(refusal(with(offsetof(Head, sources), 4, 4)), length + "1112");
  EXPECT_EQ(refusal(right + "x"), "it has 1007 bytes, and must have 1006");
  EXPECT_EQ(refusal(with(0, 1, 'E')), "it is no reproducer of this version");
  EXPECT_EQ(refusal(""), "it is no reproducer of this version");
  for (std::size_t i = 8; i < right.size(); ++i) ASSERT_NE(refusal(right.substr(0, i)), "") << i;
}

TEST(Reproducer, NamesAreMadePrintable) {
  Reproducer r = sample(false);
  r.head.backend = {'\x1b', '[', '3', '1', 'm', '\xff', '\n', 'x'};
  r.head.judge.fill('~' + 1);
  std::string why;
  const auto read = codec::parse_reproducer(to_file(r), &why);
  ASSERT_TRUE(read) << why;
  EXPECT_STREQ(read->head.backend.data(), "?[31m??x");
  EXPECT_EQ(read->head.judge.data(), std::string(15, '?'));
}

class ReproducerFiles : public testing::Test {
 protected:
  std::string write(const std::string& directory) {
    why_.clear();
    return codec::write_reproducer(directory, sample(false), &why_);
  }

  const Folder root_;
  std::string why_;
};

TEST_F(ReproducerFiles, AreWrittenForTheOwnerAloneAndRead) {
  const std::string path = write(root_ / "made");
  ASSERT_NE(path, "") << why_;
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((root_ / "made").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
  const auto read = codec::read_reproducer(path, &why_);
  ASSERT_TRUE(read) << why_;
  EXPECT_EQ(*read, sample(false));
}

TEST_F(ReproducerFiles, OverwriteNothingAndStopAtSixteen) {
  for (unsigned i = 0; i < codec::most_reproducers - 1; ++i)
    std::ofstream(root_ / ("mismatch-" + std::to_string(i)));
  std::ofstream(root_ / "another");
  ASSERT_NE(write(root_.path()), "") << why_;
  EXPECT_EQ(write(root_.path()), "");
  EXPECT_EQ(why_, root_.path() + ": it holds 16 of them already, which is all that are kept");
}

TEST_F(ReproducerFiles, GoIntoNoDirectoryOfOthers) {
  const auto refused = [&](const std::string& directory, const std::string& why) {
    EXPECT_EQ(write(directory), "");
    EXPECT_EQ(why_, directory + ": " + why);
  };
  refused(root_ / "a/b", "it cannot be opened as a directory: No such file or directory");
  fs::create_directory_symlink(root_.path(), root_ / "link");
  refused(root_ / "link", "it cannot be opened as a directory: Not a directory");
  ASSERT_EQ(chmod(root_.path().c_str(), 0777), 0);
  refused(root_.path(), "others may write to it (chmod go-w mends that)");
  if (geteuid() != 0) return;  // only root gives files away
  ASSERT_EQ(chmod(root_.path().c_str(), 0700), 0);
  ASSERT_EQ(chown(root_.path().c_str(), 12345, 12345), 0);
  refused(root_.path(), "it belongs to user 12345, and only root's or one's own is trusted");
}

TEST_F(ReproducerFiles, ThatAreNoneAreRefused) {
  std::ofstream(root_ / "large") << std::string(codec::largest_reproducer + 1, ' ');
  std::ofstream(root_ / "empty");
  for (const auto& [path, why] : {std::pair{root_ / "none", "it cannot be opened: No such file or directory"},
                                  {"/dev/zero", "it is not a regular file"},
                                  {root_ / "large", "it is larger than 2097152 bytes"},
                                  {root_ / "empty", "it is no reproducer of this version"}}) {
    EXPECT_FALSE(codec::read_reproducer(path, &why_));
    EXPECT_EQ(why_, why) << path;
  }
}

}  // namespace
}  // namespace ec::test
