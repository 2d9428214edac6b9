// The file of a mismatch: what is written is read, in a directory that is ours, and anything else is refused.
#include "plugin/codec/checking/reproducer.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using codec::Reproducer;
using nlohmann::json;

Reproducer sample_reproducer(bool accumulate, unsigned sources = 3, unsigned targets = 2) {
  Random random(7);
  Reproducer r{"x86",      "isal",     "2026-11-21T00:00:00Z",
               "Some CPU", accumulate, to_matrix(random_matrix(targets, sources, 5)),
               10'000,     3,          {5904, 100},
               {},         {}};
  r.block.bytes = std::min<std::size_t>(100, codec::longest_block(targets));
  for (unsigned i = 0; i < sources; ++i)
    r.sources.push_back({kernels::Residence::pinned, i, random.bytes(r.block.bytes)});
  for (unsigned i = 0; i < targets; ++i)
    r.targets.push_back({{kernels::Residence::pageable, 4095, random.bytes(r.block.bytes)},
                         random.bytes(r.block.bytes),
                         accumulate ? random.bytes(r.block.bytes) : oracle::Bytes{}});
  return r;
}

/// Why a text is refused; empty if it is not.
std::string refusal(const std::string& text) {
  std::string why;
  return codec::parse_reproducer(text, &why) ? std::string() : why;
}

TEST(Reproducer, IsReadAsItWasWritten) {
  for (const bool accumulate : {false, true})
    for (const auto& [sources, targets] : {std::pair{1u, 1u}, {3u, 2u}, {255u, 255u}}) {
      const Reproducer r = sample_reproducer(accumulate, sources, targets);
      std::string why;
      const auto text = to_json(r);
      EXPECT_LT(text.size(), codec::largest_reproducer);
      const auto read = codec::parse_reproducer(text, &why);
      ASSERT_TRUE(read) << why;
      EXPECT_EQ(*read, r);
    }
}

TEST(Reproducer, TheLargestFits) {
  Reproducer r = sample_reproducer(true, 255, 8);
  r.block.bytes = codec::longest_block(8);
  for (auto& source : r.sources) source.bytes.resize(r.block.bytes);
  for (auto& t : r.targets)
    for (auto* each : {&t.got.bytes, &t.expected, &t.before}) each->resize(r.block.bytes);
  EXPECT_LT(to_json(r).size(), codec::largest_reproducer);
  EXPECT_EQ(refusal(to_json(r)), "");
}

TEST(Reproducer, EveryWrongMemberIsNamed) {
  struct Row {
    std::string pointer;  // to the member
    json value;
    std::string why;
  };
  const std::string digits = "must be 200 hexadecimal digits";
  const std::string odd(200, 'g');
  const Row rows[] = {
      {"/format", 2, "it is of format 2, and this version reads format 1"},
      {"/format", "1", "format must be a whole number from 0 to 1000000"},
      {"/backend", 1, "backend must be a string of at most 256 characters"},
      {"/judge", std::string(257, 'x'), "judge must be a string of at most 256 characters"},
      {"/verb", "encode", "verb must be one of transform, accumulate"},
      {"/matrix", json::array(), "matrix must be a list of 1 to 255"},
      {"/matrix", std::vector<std::string>(256, "01"), "matrix must be a list of 1 to 255"},
      {"/matrix/0", "", "matrix[0] must be 2 to 510 hexadecimal digits"},
      {"/matrix/0", "012", "matrix[0] must be 2 to 510 hexadecimal digits"},
      {"/matrix/0", std::string(512, '0'), "matrix[0] must be 2 to 510 hexadecimal digits"},
      {"/matrix/1", "01", "matrix[1] must be 6 hexadecimal digits"},
      {"/matrix/1", "01020G", "matrix[1] must be 6 hexadecimal digits"},
      {"/chunk_bytes", 0, "chunk_bytes must be a whole number from 1 to 4294967296"},
      {"/chunk_bytes", std::uint64_t{1} << 33, "chunk_bytes must be a whole number from 1 to 4294967296"},
      {"/chunk_bytes", -1, "chunk_bytes must be a whole number from 1 to 4294967296"},
      {"/stripes", 0, "stripes must be a whole number from 1 to 4294967296"},
      {"/block", json::array(), "block must be an object"},
      {"/block/bytes", 4097, "block.bytes must be a whole number from 1 to 4096"},
      {"/block/bytes", 0, "block.bytes must be a whole number from 1 to 4096"},
      {"/block/offset", 9901, "block.offset must be a whole number from 0 to 9900"},
      {"/block/offset", 1.5, "block.offset must be a whole number from 0 to 9900"},
      {"/sources", json::array(), "sources must be a list of 3"},
      {"/sources/1", 1, "sources[1] must be an object"},
      {"/sources/1/residence", "gpu", "sources[1].residence must be one of pageable, pinned, device"},
      {"/sources/1/misalignment", 4096, "sources[1].misalignment must be a whole number from 0 to 4095"},
      {"/sources/1/bytes", "00", "sources[1].bytes " + digits},
      {"/sources/1/bytes", odd, "sources[1].bytes " + digits},
      {"/sources/1/bytes", json::array(), "sources[1].bytes " + digits},
      {"/targets", json::object(), "targets must be a list of 2"},
      {"/targets/0/got", "00", "targets[0].got " + digits},
      {"/targets/0/expected", "00", "targets[0].expected " + digits},
      {"/targets/0/before", "00", "targets[0].before " + digits}};
  const json right = json::parse(to_json(sample_reproducer(true)));
  for (const Row& row : rows) {
    json wrong = right;
    wrong[json::json_pointer(row.pointer)] = row.value;
    EXPECT_EQ(refusal(wrong.dump()), row.why) << row.pointer;
  }
  for (const auto& [key, value] : right.items()) {
    json wrong = right;
    wrong.erase(key);
    EXPECT_EQ(refusal(wrong.dump()), key + " is missing");
  }
  for (const std::string text : {"", "x", "{", "\xff", "{} {}"})
    EXPECT_EQ(refusal(text), "it is not JSON") << text;
  for (const std::string text : {"[]", "1", "null"}) EXPECT_EQ(refusal(text), "it must be an object") << text;
  EXPECT_NE(refusal(std::string(100'000, '[')), "");
}

/// Broken anywhere it is refused or still consistent; the sanitizers watch.
TEST(Reproducer, DamageDoesNoHarm) {
  const std::string right = to_json(sample_reproducer(true));
  Random random(3);
  for (unsigned i = 0; i < 3000; ++i) {
    std::string text = right;
    if (i % 3 == 0) text.resize(random.below(static_cast<unsigned>(text.size())));
    for (unsigned n = random.below(4); n > 0 && !text.empty(); --n)
      text[random.below(static_cast<unsigned>(text.size()))] = static_cast<char>(random.below(256));
    std::string why;
    const auto read = codec::parse_reproducer(text, &why);
    ASSERT_NE(read.has_value(), !why.empty());
    if (!read) continue;
    ASSERT_LE(read->block.offset + read->block.bytes, read->chunk_bytes);
    ASSERT_EQ(read->sources.size(), read->matrix.cols());
  }
}

class ReproducerFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "reproducers.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string write(const fs::path& directory) {
    why_.clear();
    return codec::write_reproducer(directory, sample_reproducer(false), &why_);
  }
  std::string why_not_read(const fs::path& path) {
    std::string why;
    return codec::read_reproducer(path, &why) ? std::string() : why;
  }

  fs::path root_;
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
  EXPECT_EQ(*read, sample_reproducer(false));
}

TEST_F(ReproducerFiles, OverwriteNothingAndStopAtSixteen) {
  for (unsigned i = 0; i < codec::most_reproducers - 1; ++i)
    std::ofstream(root_ / ("mismatch-" + std::to_string(i)));
  std::ofstream(root_ / "another");
  ASSERT_NE(write(root_), "") << why_;
  EXPECT_EQ(write(root_), "");
  EXPECT_EQ(why_, root_.string() + ": it holds 16 of them already, which is all that are kept");
}

TEST_F(ReproducerFiles, GoIntoNoDirectoryOfOthers) {
  const auto inner = root_ / "inner";
  fs::create_directory(inner);
  ASSERT_EQ(chmod(inner.c_str(), 0777), 0);
  EXPECT_EQ(write(inner), "");
  EXPECT_EQ(why_, inner.string() + ": others may write to it (chmod go-w mends that)");
  ASSERT_EQ(chmod(inner.c_str(), 0700), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(inner.c_str(), 12345, 12345), 0);
    EXPECT_EQ(write(inner), "");
    EXPECT_EQ(why_, inner.string() + ": it belongs to user 12345, and only root's or one's own is trusted");
  }
  const auto link = root_ / "link";
  fs::create_directory_symlink(root_, link);
  EXPECT_EQ(write(link), "");
  EXPECT_EQ(why_, link.string() + ": it cannot be opened as a directory: Not a directory");
  std::ofstream(root_ / "file");
  EXPECT_EQ(write(root_ / "file"), "");
  EXPECT_EQ(why_, (root_ / "file").string() + ": it cannot be opened as a directory: Not a directory");
  EXPECT_EQ(write(root_ / "a" / "b"), "");
  EXPECT_EQ(why_,
            (root_ / "a" / "b").string() + ": it cannot be opened as a directory: No such file or directory");
}

TEST_F(ReproducerFiles, ThatAreNoneAreRefused) {
  EXPECT_EQ(why_not_read(root_ / "none"), "it cannot be opened: No such file or directory");
  EXPECT_EQ(why_not_read(root_), "it is not a regular file");
  ASSERT_EQ(mkfifo((root_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(why_not_read(root_ / "fifo"), "it is not a regular file");
  EXPECT_EQ(why_not_read("/dev/zero"), "it is not a regular file");
  std::ofstream(root_ / "large") << std::string(codec::largest_reproducer + 1, ' ');
  EXPECT_EQ(why_not_read(root_ / "large"), "it is larger than 4194304 bytes");
  std::ofstream(root_ / "empty");
  EXPECT_EQ(why_not_read(root_ / "empty"), "it is not JSON");
}

}  // namespace
}  // namespace ec::test
