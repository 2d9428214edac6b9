// Small files: what is read and from whom, and that what is written is there whole or not at all.
#include "support/files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/common/child.hpp"
#include "tests/common/folder.hpp"
#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using support::Descriptor;

TEST(Directories, AreOpenedAsTheyAreAndListed) {
  const Folder folder;
  std::ofstream(folder / "a") << "x";
  fs::create_directory_symlink(folder.path(), folder / "link");
  Descriptor directory;
  std::string why;
  ASSERT_EQ(support::open_directory(folder.path(), &directory, &why), 0) << why;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> names;
    EXPECT_EQ(support::list_directory(directory.get(), &names), 0);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), folder.names());
    int seen = 0;
    EXPECT_EQ(support::visit_directory(directory.get(), [&](const char*) { return ++seen, false; }), 0);
    EXPECT_EQ(seen, 1);
  }
  for (const auto* path : {"a", "link"}) {
    EXPECT_EQ(support::open_directory(folder / path, &directory, &why), -ENOTDIR) << path;
    EXPECT_EQ(why, "it cannot be opened as a directory: Not a directory");
  }
}

TEST(Directories, OfNobodyWhoCouldChangeThemAreOpened) {
  const Folder folder;
  Descriptor directory;
  std::string why;
  for (const mode_t mode : {0720, 0702}) {
    ASSERT_EQ(chmod(folder.path().c_str(), mode), 0);
    EXPECT_EQ(support::open_directory(folder.path(), &directory, &why), -EPERM);
    EXPECT_EQ(why, "others may write to it (chmod go-w mends that)");
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chown(folder.path().c_str(), 12345, 12345), 0);
  EXPECT_EQ(support::open_directory(folder.path(), &directory, &why), -EPERM);
  EXPECT_EQ(why, "it belongs to user 12345, and only root's or one's own is trusted");
  ASSERT_EQ(seteuid(12345), 0);
  const int by_other = support::open_directory("/", &directory, &why);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(by_other, 0) << "root's is anybody's";
}

TEST(WriteNewFile, OverwritesNothing) {
  const Folder folder;
  const mode_t before = umask(0);
  EXPECT_EQ(support::write_new_file(AT_FDCWD, folder / "a", "one", 0600), 0);
  umask(before);
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(folder / "nowhere", folder / "link");
  for (const auto* name : {"a", "link"})
    EXPECT_EQ(support::write_new_file(AT_FDCWD, folder / name, "two", 0600), -EEXIST) << name;
  EXPECT_EQ(content_of(folder / "a"), "one");
  EXPECT_EQ(support::write_new_file(AT_FDCWD, folder / "none/a", "x", 0600), -ENOENT);
  EXPECT_EQ(folder.names(), (std::set<std::string>{"a", "link"}));
}

TEST(ReplaceFile, IsWholeReadableOrLeavesNothingBeside) {
  const Folder folder;
  const mode_t before = umask(077);
  for (const auto* text : {"one", "two"})
    EXPECT_EQ(support::replace_file(AT_FDCWD, folder / "a", text, 0644), 0);
  umask(before);
  EXPECT_EQ(content_of(folder / "a"), "two");
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder / "a").permissions()), 0644u);
  fs::create_directory(folder / "b");
  for (const auto& [path, error] :
       {std::pair(folder / "b", -EISDIR), {folder / "none/a", -ENOENT}, {"/dev/full/a", -ENOTDIR}})
    EXPECT_EQ(support::replace_file(AT_FDCWD, path, "x", 0644), error) << path;
  EXPECT_EQ(folder.names(), (std::set<std::string>{"a", "b"}));
}

TEST(ReplaceFile, ReadersAndWritersMayRace) {
  const Folder folder;
  std::atomic<unsigned> wrong{0};
  in_threads(4, [&](unsigned t) {
    for (int i = 0; i < 100; ++i) {
      wrong += support::replace_file(AT_FDCWD, folder / "a", std::string(20'000, "abcd"[t]), 0600) != 0;
      const std::string text = content_of(folder / "a");
      wrong += text.size() != 20'000 || text != std::string(20'000, text[0]);
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
}

TEST(WriteNewFile, ALimitOnTheSizeOfFilesIsAnErrorAndNoSignal) {
  const Folder folder;
  const auto write = [&](const char* name, std::size_t bytes) {
    return support::write_new_file(AT_FDCWD, folder / name, std::string(bytes, 'x'), 0600);
  };
  EXPECT_EQ(in_child([&] {
              const struct rlimit limit { 1000, 1000 };
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              return write("a", 1000) == 0 && write("b", 1001) == -EFBIG ? 0 : 2;
            }),
            0);
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
}

}  // namespace
}  // namespace ec::test
