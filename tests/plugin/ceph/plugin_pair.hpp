// Our plugin and Debian's isa plugin of the same code in one process, and what is needed to compare them.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ceph/classic.h"

namespace ec::test {

using Chunks = std::map<int, ::ceph::bufferlist>;

struct Shape {
  std::string technique;
  unsigned k;
  unsigned m;
};

std::string describe(const Shape& shape);

struct PluginPair {
  Shape shape;
  ::ceph::ErasureCodeInterfaceRef ours;
  ::ceph::ErasureCodeInterfaceRef stock;
};

/// The pair for a shape, made on first use. Throws std::runtime_error with the plugin's reason if one
/// refuses.
const PluginPair& plugin_pair(const Shape& shape);

/// Every shape that is compared: those of up to 20 data and 4 coding chunks with either technique, and wider
/// ones that only the Cauchy matrix allows.
const std::vector<Shape>& compared_shapes();

/// The seed of this run, that of EC_TEST_SEED where it is set; said on standard output.
std::uint64_t base_seed();

/// Random bytes and what is drawn from them; the seed is all that a draw depends on.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in lowest..highest.
  std::uint64_t number(std::uint64_t lowest, std::uint64_t highest) {
    return std::uniform_int_distribution<std::uint64_t>(lowest, highest)(engine_);
  }
  /// 1..highest, as likely in each power of two.
  std::uint64_t length(std::uint64_t highest);
  /// `count` different members of `from`.
  std::set<int> subset(const std::set<int>& from, unsigned count);
  /// Random bytes in `pieces` buffers (at most one a byte), each starting and ending anywhere.
  ::ceph::bufferlist bytes(std::size_t length, unsigned pieces);
  /// A copy of `content` in such buffers.
  ::ceph::bufferlist in_pieces(std::string_view content, unsigned pieces);

 private:
  std::mt19937_64 engine_;
};

/// {0, .., count - 1}
std::set<int> first_chunks(unsigned count);
/// Members of `chunks` that are not in `lost`.
Chunks without(const Chunks& chunks, const std::set<int>& lost);
/// Copies that share no memory with `chunks`, each in one buffer.
Chunks deep_copy(const Chunks& chunks);
std::string flat(const ::ceph::bufferlist& bytes);
/// Empty if both hold every chunk in `wanted` with the same bytes, otherwise the first difference in words.
std::string difference(const Chunks& a, const Chunks& b, const std::set<int>& wanted);

}  // namespace ec::test
