// The file of a mismatch: what is in it, and the directory that it goes into. What ectool makes of it is in
// tests/tools/ectool_test.py.
#include "plugin/codec/checking/reproducer.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <iterator>

#include "kernels/program.hpp"
#include "tests/common/folder.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

class Reproducers : public testing::Test {
 protected:
  /// A block of a job of 2 sources and 1 target that a back end got wrong.
  std::string write(const std::string& directory, const codec::SavedTargets* before = nullptr,
                    const std::uint8_t* got = nullptr) {
    EXPECT_EQ(views_.fetch(), kernels::Status::ok);
    why_.clear();
    return codec::write_reproducer(directory, "x86", views_, before, got, &why_);
  }

  const Folder root_;
  std::string why_;
  std::vector<std::vector<std::uint8_t>> chunks_ = Random(7).chunks(3, 1000);
  const kernels::Program program_{[] {
    gf::Matrix matrix(1, 2);
    matrix(0, 0) = 0x53;
    matrix(0, 1) = 0xca;
    return matrix;
  }()};
  const std::array<kernels::Source, 2> sources_{{{chunks_[0].data()}, {chunks_[1].data()}}};
  const std::array<kernels::Target, 1> targets_{{{chunks_[2].data()}}};
  const kernels::Job job_{&program_, sources_, targets_, 1000};
  codec::BlockViews views_{job_, {.offset = 600, .bytes = 300}, nullptr};
};

TEST_F(Reproducers, HoldTheBlockAndWhatItTakesToRunItAgain) {
  const codec::SavedTargets before{Random(8).bytes(1000)};
  const auto got = Random(9).bytes(300);
  for (const bool accumulate : {false, true}) {
    const std::string path = write(root_ / (accumulate ? "a" : "t"), accumulate ? &before : nullptr,
                                   accumulate ? got.data() : nullptr);
    ASSERT_NE(path, "") << why_;
    std::string expected = std::string("ec_cuda mismatch 2: backend=x86 verb=") +
                           (accumulate ? "accumulate" : "transform") +
                           " sources=2 targets=1 chunk=1000 block=300 offset=600\n";
    for (const auto& chunk : chunks_)
      expected += static_cast<char>(reinterpret_cast<std::uintptr_t>(chunk.data()) % 256);
    expected += "\x53\xca";
    const auto add_block = [&](const std::vector<std::uint8_t>& chunk) {
      expected.append(chunk.begin() + 600, chunk.begin() + 900);
    };
    add_block(chunks_[0]);
    add_block(chunks_[1]);
    if (accumulate) {
      add_block(before.bytes);
      expected.append(got.begin(), got.end());
    } else {
      add_block(chunks_[2]);
    }
    std::ifstream file(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), expected);
  }
}

TEST_F(Reproducers, AreForTheOwnerAloneOverwriteNothingAndStopAtSixteen) {
  const std::string path = write(root_ / "made");
  ASSERT_NE(path, "") << why_;
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((root_ / "made").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
  for (unsigned i = 0; i < codec::most_reproducers - 1; ++i)
    std::ofstream(root_ / ("mismatch-" + std::to_string(i)));
  std::ofstream(root_ / "another");
  ASSERT_NE(write(root_.path()), "") << why_;
  EXPECT_EQ(write(root_.path()), "");
  EXPECT_EQ(why_, root_.path() + ": it holds 16 of them already, which is all that are kept");
}

TEST_F(Reproducers, GoIntoNoDirectoryOfOthers) {
  ASSERT_EQ(chmod(root_.path().c_str(), 0777), 0);
  EXPECT_EQ(write(root_.path()), "");
  EXPECT_EQ(why_, root_.path() + ": others may write to it (chmod go-w mends that)");
  EXPECT_EQ(write(root_ / "a/b"), "");
  EXPECT_EQ(why_, root_ / "a/b" + ": it cannot be opened as a directory: No such file or directory");
}

}  // namespace
}  // namespace ec::test
