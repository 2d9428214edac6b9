// Loaded as jerasure, our plugin has Ceph's own libec_jerasure.so beside it: where it is looked for, and what
// is said where it is not. A plugin stays loaded, so each host is a process of its own.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/common/child.hpp"
#include "tests/common/folder.hpp"
#include "tests/plugin/ceph/roles.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;

/// What a new host says that loads us as jerasure with that setting: the error and the text on stderr.
int load_jerasure(const std::string& stock_directory, const std::string& sentence) {
  role_folder();
  host::PluginHost::instance();
  return -in_child([&] {
    setenv("EC_CUDA_STOCK_DIRECTORY", stock_directory.c_str(), 1);
    testing::internal::CaptureStderr();
    const Made made = make("jerasure", {{"technique", "cauchy_good"}, {"k", "4"}, {"m", "2"}});
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(sentence), said.npos) << said;
    return testing::Test::HasFailure() ? 255 : -made.error;
  });
}

TEST(Stock, IsFoundWherePackagesPutItOrTheSettingSays) {
  const std::string file = "/libec_jerasure.so";
  EXPECT_EQ(load_jerasure("none", "w=8 are coded by ec_cuda, all others by /usr/lib"), 0);
  const Folder other;
  fs::copy_file(EC_STOCK_PLUGIN_DIR + file, other / "libec_jerasure.so");
  EXPECT_EQ(load_jerasure(other.path(), other.path()), 0);
}

TEST(Stock, ThatIsMissingIsSaid) {
  const Folder empty;
  EXPECT_EQ(load_jerasure(empty.path(),
                          "plugin jerasure: Ceph's own libec_jerasure.so, which codes what "
                          "this plugin does not, is not in " +
                              empty.path()),
            -ENOENT);
  // The link that the host has loaded us by.
  EXPECT_EQ(load_jerasure(role_folder(), "is not in " + role_folder()), -ENOENT);
}

TEST(Stock, ThatIsOursOrNoPluginIsSaid) {
  const Folder folder;
  const fs::path file = folder / "libec_jerasure.so";
  fs::copy_file(fs::read_symlink(role_folder() + "/libec_jerasure.so"), file);
  EXPECT_EQ(load_jerasure(folder.path(), "is not in " + folder.path()), -ENOENT);
  std::ofstream(file) << "no library";
  EXPECT_EQ(load_jerasure(folder.path(), "file too short"), -EIO);
}

}  // namespace
}  // namespace ec::test
