// Small files: what is read and from whom, and that what is written is there whole or not at all.
#include "support/files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/common/child.hpp"
#include "tests/common/folder.hpp"
#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using support::Descriptor;
using support::Trust;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What read_file() says of a file of at most 100 bytes.
struct Answer {
  int error;
  std::string text;  ///< the content, or why not
  bool operator==(const Answer&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Answer& a) { return out << a.error << ": " << a.text; }

Answer read(const std::string& path, Trust trust) {
  std::string content, why;
  const int error = support::read_file(AT_FDCWD, path, trust, 100, &content, &why);
  EXPECT_EQ(error == 0, why.empty());
  EXPECT_EQ(support::read_file(AT_FDCWD, path, trust, 100, &content, nullptr), error) << "without words";
  return {error, error == 0 ? content : why};
}

constexpr Trust every_trust[] = {Trust::anyone, Trust::root_or_self};

TEST(ReadFile, TakesARegularFileUpToItsBound) {
  const Folder folder;
  for (const std::size_t bytes : {0, 1, 99, 100, 101, 10'000}) {
    std::ofstream(folder / "file") << std::string(bytes, 'x');
    const Answer wanted =
        bytes <= 100 ? Answer{0, std::string(bytes, 'x')} : Answer{-EFBIG, "it is larger than 100 bytes"};
    for (const Trust trust : every_trust) EXPECT_EQ(read(folder / "file", trust), wanted);
  }
  std::string text;
  EXPECT_EQ(support::read_file(AT_FDCWD, "/proc/self/status", Trust::anyone, 1 << 20, &text, nullptr), 0);
  EXPECT_NE(text.find("\nUid:"), std::string::npos) << "a file that says that it is empty";
}

TEST(ReadFile, OpensNothingElse) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  const Answer not_regular{-EINVAL, "it is not a regular file"};
  for (const Trust trust : every_trust) {
    for (const std::string& path : {folder.path(), folder / "fifo", std::string("/dev/zero")})
      EXPECT_EQ(read(path, trust), not_regular) << path;
    EXPECT_EQ(read(folder / "none", trust),
              (Answer{-ENOENT, "it cannot be opened: No such file or directory"}));
  }
  // A writer that does not wait for a reader finds out whether there was one for a moment.
  std::atomic<bool> done{false}, opened{false};
  std::thread writer([&] {
    while (!done) {
      const Descriptor fifo(open((folder / "fifo").c_str(), O_WRONLY | O_NONBLOCK));
      if (fifo) opened = true;
    }
  });
  for (int i = 0; i < 2000; ++i) static_cast<void>(read(folder / "fifo", Trust::anyone));
  done = true;
  writer.join();
  EXPECT_FALSE(opened);
}

TEST(ReadFile, TrustsNobodyWhoCouldChangeIt) {
  const Folder folder;
  std::ofstream(folder / "file") << "x";
  fs::create_symlink(folder / "file", folder / "link");
  EXPECT_EQ(read(folder / "link", Trust::root_or_self), (Answer{0, "x"}));
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_EQ(chmod((folder / "file").c_str(), mode), 0);
    EXPECT_EQ(read(folder / "file", Trust::anyone), (Answer{0, "x"}));
    EXPECT_EQ(read(folder / "file", Trust::root_or_self),
              (Answer{-EPERM, "others may write to it (chmod go-w mends that)"}));
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chmod((folder / "file").c_str(), 0600), 0);
  ASSERT_EQ(chown((folder / "file").c_str(), 12345, 12345), 0);
  const Answer foreign{-EPERM, "it belongs to user 12345, and only root's or one's own is trusted"};
  EXPECT_EQ(read(folder / "file", Trust::anyone), (Answer{0, "x"}));
  EXPECT_EQ(read(folder / "file", Trust::root_or_self), foreign);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chown((folder / "file").c_str(), 0, 0), 0);
  ASSERT_EQ(chmod((folder / "file").c_str(), 0644), 0);
  ASSERT_EQ(seteuid(12345), 0);
  const Answer by_other = read(folder / "file", Trust::root_or_self);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(by_other, (Answer{0, "x"})) << "root's is anybody's";
}

TEST(Directories, AreOpenedAsTheyAreAndListed) {
  const Folder folder;
  std::ofstream(folder / "a") << "x";
  fs::create_directory_symlink(folder.path(), folder / "link");
  Descriptor directory;
  std::string why;
  ASSERT_EQ(support::open_directory(folder.path(), Trust::root_or_self, &directory, &why), 0) << why;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> names;
    EXPECT_EQ(support::list_directory(directory.get(), &names), 0);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), folder.names());
  }
  for (const auto* path : {"a", "link"}) {
    EXPECT_EQ(support::open_directory(folder / path, Trust::anyone, &directory, &why), -ENOTDIR) << path;
    EXPECT_EQ(why, "it cannot be opened as a directory: Not a directory");
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0770), 0);
  EXPECT_EQ(support::open_directory(folder.path(), Trust::root_or_self, &directory, &why), -EPERM);
  EXPECT_EQ(why, "others may write to it (chmod go-w mends that)");
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
