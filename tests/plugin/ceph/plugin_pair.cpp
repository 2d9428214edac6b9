#include "tests/plugin/ceph/plugin_pair.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/host/plugin_host.hpp"

namespace ec::test {
namespace {

ceph::ErasureCodeInterfaceRef make(const char* plugin, const char* directory, const Shape& shape) {
  ceph::ErasureCodeProfile profile{{"plugin", plugin},
                                   {"technique", shape.technique},
                                   {"k", std::to_string(shape.k)},
                                   {"m", std::to_string(shape.m)}};
  std::ostringstream why;
  const auto made = host::PluginHost::instance().make(plugin, directory, profile, &why);
  if (!made)
    throw std::runtime_error(
        fmt::format("{} refuses {}: {} ({})", plugin, describe(shape), made.error, why.str()));
  return made.code;
}

/// Ours, or another that a test of the tests puts in its place.
const char* plugin_directory() {
  const char* other = std::getenv("EC_TEST_PLUGIN_DIR");
  return other == nullptr ? EC_PLUGIN_DIR : other;
}

/// Longer than any input, so that inputs differ by where they start.
const std::string& random_pool() {
  static const std::string pool = [] {
    std::mt19937_64 engine(20);
    std::string bytes(std::size_t{96} << 20, '\0');
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      const std::uint64_t word = engine();
      std::memcpy(bytes.data() + at, &word, 8);
    }
    return bytes;
  }();
  return pool;
}

}  // namespace

std::string describe(const Shape& shape) {
  return fmt::format("{} {}+{}", shape.technique, shape.k, shape.m);
}

const PluginPair& plugin_pair(const Shape& shape) {
  static std::map<std::string, PluginPair> pairs;
  PluginPair& pair = pairs[describe(shape)];
  if (!pair.ours)
    pair = {shape, make("cuda", plugin_directory(), shape), make("isa", EC_STOCK_PLUGIN_DIR, shape)};
  return pair;
}

const std::vector<Shape>& compared_shapes() {
  static const std::vector<Shape> shapes = [] {
    std::vector<Shape> list;
    for (const char* technique : {"reed_sol_van", "cauchy"})
      for (unsigned k = 2; k <= 20; ++k)
        for (unsigned m = 1; m <= 4; ++m) list.push_back({technique, k, m});
    for (unsigned k = 2; k <= 20; ++k)
      for (unsigned m = 5; m <= 6; ++m) list.push_back({"cauchy", k, m});
    for (const Shape& widest : {Shape{"cauchy", 32, 8}, {"reed_sol_van", 21, 4}, {"reed_sol_van", 32, 3}})
      list.push_back(widest);
    return list;
  }();
  return shapes;
}

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
    ceph::bufferptr buffer(ceph::buffer::create(static_cast<unsigned>(before + size + number(0, 70))));
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

Chunks deep_copy(const Chunks& chunks) {
  Chunks copy;
  for (const auto& [c, bytes] : chunks) {
    const std::string contents = flat(bytes);
    ceph::bufferptr buffer(ceph::buffer::create_aligned(static_cast<unsigned>(contents.size()), 64));
    std::ranges::copy(contents, buffer.c_str());
    copy[c].push_back(std::move(buffer));
  }
  return copy;
}

std::string flat(const ceph::bufferlist& bytes) {
  std::string out;
  out.reserve(bytes.length());
  for (const auto& piece : bytes.buffers()) out.append(piece.c_str(), piece.length());
  return out;
}

std::string difference(const Chunks& a, const Chunks& b, const std::set<int>& wanted) {
  for (int c : wanted) {
    const auto in_a = a.find(c);
    const auto in_b = b.find(c);
    if (in_a == a.end() || in_b == b.end()) return fmt::format("chunk {} is missing", c);
    if (in_a->second.length() != in_b->second.length())
      return fmt::format("chunk {} has {} bytes against {}", c, in_a->second.length(), in_b->second.length());
    if (in_a->second.contents_equal(in_b->second)) continue;
    const std::string x = flat(in_a->second);
    const std::string y = flat(in_b->second);
    return fmt::format("chunk {} differs at byte {} of {}", c, std::ranges::mismatch(x, y).in1 - x.begin(),
                       x.size());
  }
  return "";
}

}  // namespace ec::test
