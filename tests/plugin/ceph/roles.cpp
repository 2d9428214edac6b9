#include "tests/plugin/ceph/roles.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "tests/common/folder.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

/// Longer than any input, so that inputs differ by where they start.
const std::string& random_pool() {
  static const std::string pool = [] {
    const auto bytes = Random(20).bytes(std::size_t{96} << 20);
    return std::string(bytes.begin(), bytes.end());
  }();
  return pool;
}

}  // namespace

std::uint64_t base_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("EC_TEST_SEED");
    const std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device()();
    fmt::print("EC_TEST_SEED={}\n", value);
    return value;
  }();
  return seed;
}

std::uint64_t Draw::length(std::uint64_t highest) {
  const std::uint64_t top = std::uint64_t{1} << number(0, std::bit_width(highest) - 1);
  return std::min(highest, number(top, 2 * top - 1));
}

std::set<int> Draw::subset(const std::set<int>& from, unsigned count) {
  std::vector<int> order(from.begin(), from.end());
  std::shuffle(order.begin(), order.end(), engine_);
  return {order.begin(), order.begin() + count};
}

ceph::bufferlist Draw::bytes(std::size_t length, unsigned pieces) {
  const std::string& pool = random_pool();
  return in_pieces({pool.data() + number(0, pool.size() - length), length}, pieces);
}

ceph::bufferlist Draw::in_pieces(std::string_view content, unsigned pieces) {
  const std::size_t length = content.size();
  std::vector<std::size_t> cuts{0, length};
  for (unsigned i = 1; i < pieces && length > 0; ++i) cuts.push_back(number(0, length));
  std::ranges::sort(cuts);
  ceph::bufferlist list;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    const std::size_t size = cuts[i] - cuts[i - 1];
    if (size == 0) continue;
    const std::size_t before = number(0, 70);
    ceph::bufferptr buffer(::ceph::buffer::create(static_cast<unsigned>(before + size + number(0, 70))));
    buffer.copy_in(static_cast<unsigned>(before), static_cast<unsigned>(size), content.data() + cuts[i - 1]);
    list.append(ceph::bufferptr(buffer, static_cast<unsigned>(before), static_cast<unsigned>(size)));
  }
  return list;
}

std::set<int> first_chunks(unsigned count) {
  std::set<int> chunks;
  for (unsigned c = 0; c < count; ++c) chunks.insert(static_cast<int>(c));
  return chunks;
}

Chunks without(const Chunks& chunks, const std::set<int>& lost) {
  Chunks rest = chunks;
  for (int c : lost) rest.erase(c);
  return rest;
}

std::string difference(const Chunks& a, const Chunks& b, const std::set<int>& wanted) {
  for (int c : wanted) {
    const auto in_a = a.find(c);
    const auto in_b = b.find(c);
    if (in_a == a.end() || in_b == b.end()) return fmt::format("chunk {} is missing", c);
    if (in_a->second.length() != in_b->second.length())
      return fmt::format("chunk {} has {} bytes against {}", c, in_a->second.length(), in_b->second.length());
    if (in_a->second.contents_equal(in_b->second)) continue;
    const std::string x = in_a->second.to_str();
    const std::string y = in_b->second.to_str();
    return fmt::format("chunk {} differs at byte {} of {}", c, std::ranges::mismatch(x, y).in1 - x.begin(),
                       x.size());
  }
  return "";
}

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

Made make(const std::string& plugin, Profile profile, const std::string& folder) {
  std::ostringstream why;
  auto made = host::PluginHost::instance().make(plugin, folder, profile, &why);
  return {made.error, why.str(), std::move(profile), std::move(made.code)};
}

Profile profile_of(const std::string& technique, unsigned k, unsigned m) {
  return {{"technique", technique}, {"k", std::to_string(k)}, {"m", std::to_string(m)}};
}

std::string file_of(const ::ceph::ErasureCodeInterfaceRef& code) {
  Dl_info file{};
  dladdr(*reinterpret_cast<void**>(code.get()), &file);  // where its virtual table is
  return file.dli_fname;
}

Code::Code(Made made) : classic_(std::move(made.code)) {
  if (!classic_) throw std::runtime_error(made.why);
  if (host_release() >= 20)
    tentacle_ = std::reinterpret_pointer_cast<::ceph::tentacle::ErasureCodeInterface>(std::move(classic_));
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
