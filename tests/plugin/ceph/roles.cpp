#include "tests/plugin/ceph/roles.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/common/folder.hpp"

namespace ec::test {

const std::string& role_folder() {
  // Ends with the process, which has the plugins in use to its end.
  static const Folder folder;
  static const std::string path = [] {
    namespace fs = std::filesystem;
    const char* other = std::getenv("EC_TEST_PLUGIN_DIR");
    const std::string ours = std::string(other == nullptr ? EC_PLUGIN_DIR : other) + "/libec_cuda.so";
    const std::string stock = EC_STOCK_PLUGIN_DIR;
    const auto link = [&](const std::string& to, const std::string& name) {
      fs::create_symlink(to, folder / ("libec_" + name + ".so"));
    };
    for (const char* name : {"isa", "jerasure", "cuda"}) link(ours, name);
    for (const char* name : {"isa", "jerasure"})
      link(stock + "/libec_" + name + ".so", std::string("stock") + name);
    link(stock + "/libec_lrc.so", "lrc");
    return folder.path();
  }();
  return path;
}

int host_release() { return std::stoi(host::PluginHost::version()); }

Made make(const std::string& plugin, Profile profile) {
  std::ostringstream why;
  auto made = host::PluginHost::instance().make(plugin, role_folder(), profile, &why);
  return {made.error, why.str(), std::move(profile), std::move(made.code)};
}

bool is_by_ours(const Made& made) {
  Dl_info file{};
  dladdr(*reinterpret_cast<void**>(made.code.get()), &file);  // where its virtual table is
  return std::filesystem::canonical(file.dli_fname).filename() == "libec_cuda.so";
}

Chunks Code::encode(const ceph::bufferlist& in) const {
  Chunks out;
  EXPECT_EQ(with([&](auto& code) { return code.encode(first_chunks(n()), in, &out); }), 0);
  return out;
}

Chunks Code::decode(const Chunks& all, const std::set<int>& lost) const {
  Chunks out;
  const auto bytes = static_cast<int>(all.begin()->second.length());
  EXPECT_EQ(with([&](auto& code) { return code.decode(lost, without(all, lost), &out, bytes); }), 0);
  return out;
}

std::pair<int, std::set<int>> Code::reads(const std::set<int>& want, const std::set<int>& available) const {
  std::map<int, std::vector<std::pair<int, int>>> minimum;
  const int error = with([&](auto& code) { return code.minimum_to_decode(want, available, &minimum); });
  std::set<int> read;
  for (const auto& [shard, parts] : minimum) {
    read.insert(shard);
    EXPECT_EQ(parts, (std::vector<std::pair<int, int>>{{0, 1}}));
  }
  return {error, read};
}

std::pair<int, std::set<int>> Code::cheapest_reads(const std::set<int>& want,
                                                   const std::map<int, int>& costs) const {
  std::set<int> read;
  const int error = with([&](auto& code) { return code.minimum_to_decode_with_cost(want, costs, &read); });
  return {error, read};
}

}  // namespace ec::test
