// Calls of Ceph 20's optimised pools on one stripe: maps of any size with any shards, of unequal lengths and
// empty ones among them. What can be done is right, what cannot is refused, and nothing else is written.
#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string>

#include "plugin/ceph/tentacle.hpp"
#include "tests/fuzz/codes.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::fuzz {
namespace {

using ::ceph::bufferptr;
using ::ceph::tentacle::BufferMap;
using Code = CodeBehind<ceph::Tentacle>;

struct Case {
  const Code& code;
  Contents right;
  std::size_t bytes;  ///< of a chunk

  int shards() const { return static_cast<int>(code.k + code.m); }
  bool is_data(int shard) const {
    const auto end = code.shards.begin() + code.k;
    return std::find(code.shards.begin(), end, shard) != end;
  }
};

bufferptr buffer_of(Input& input, const std::string& text) {
  return test::buffer_of(text, input.ConsumeIntegralInRange(0u, 1u) * input.ConsumeIntegralInRange(0u, 70u));
}

/// Mostly shards of the code, of one length, in a map with room for them. `as_they_are`: with their bytes.
Contents draw(Input& input, const Case& c, bool as_they_are) {
  Contents contents;
  for (const unsigned s : chunk_set(input, c.code.k + c.code.m)) {
    const std::string& right = c.right.at(static_cast<int>(s));
    contents[static_cast<int>(s)] = as_they_are ? right : std::string(right.size(), '?');
  }
  if (input.ConsumeIntegralInRange(0, 15) == 0)
    contents[input.ConsumeIntegralInRange(c.shards(), 127)] = std::string(c.bytes, 'x');
  if (input.ConsumeIntegralInRange(0, 15) == 0 && !contents.empty())
    contents.begin()->second.resize(input.ConsumeIntegralInRange<std::size_t>(0, 200));
  return contents;
}

/// As the host makes it.
struct Map : BufferMap {
  Map(Input& input, const Contents& contents)
      : BufferMap(static_cast<std::size_t>(std::max(contents.empty() ? 0 : contents.rbegin()->first + 1,
                                                    input.ConsumeIntegralInRange(0, 128)))) {
    for (const auto& [shard, text] : contents) test::insert(*this, shard, buffer_of(input, text));
  }
  void expect_holds(const Contents& contents, const char* what) const {
    expect(entries == contents.size(), "{}: as many shards", what);
    for (const auto& [shard, text] : contents)
      expect(test::text(*slots[static_cast<std::size_t>(shard)]) == text, "{}: shard {}", what, shard);
  }
};

/// Whether all are shards of the code, and those that are looked at of one length.
template <class Looked>
bool is_sound(const Case& c, const Contents& in, const Contents& out, Looked is_looked_at) {
  std::set<std::size_t> lengths;
  for (const auto* contents : {&in, &out})
    for (const auto& [shard, text] : *contents) {
      if (shard >= c.shards()) return false;
      if (is_looked_at(shard, contents == &out)) lengths.insert(text.size());
    }
  return lengths.size() <= 1;
}

void check_encode_chunks(Input& input, const Case& c) {
  const Contents from = draw(input, c, true);
  Contents to = draw(input, c, false);
  Map in(input, from), out(input, to);
  const auto looked_at = [&](int shard, bool written) { return written || c.is_data(shard); };
  const int right = is_sound(c, from, to, looked_at) ? 0 : -EINVAL;
  const int answer = c.code.ours.encode_chunks(in, out);
  expect(answer == right, "{} from encode_chunks, not {}", right, answer);
  if (right == 0 && !to.empty()) {
    Contents data = to;  // comes before the same shards to be read
    data.insert(from.begin(), from.end());
    const Contents coding = coding_of(c.code, data, to.begin()->second.size());
    for (auto& [shard, text] : to)
      if (!c.is_data(shard)) text = coding.at(shard);
  }
  in.expect_holds(from, "encode_chunks reads");
  out.expect_holds(to, "encode_chunks writes");
}

void check_apply_delta(Input& input, const Case& c) {
  const Contents from = draw(input, c, true);
  Contents to = draw(input, c, false);
  Map in(input, from), out(input, to);
  const auto looked_at = [&](int shard, bool written) { return written != c.is_data(shard); };
  if (!is_sound(c, from, to, looked_at)) return;  // else the process ends
  c.code.ours.apply_delta(in, out);
  for (auto& [shard, text] : to) {
    if (c.is_data(shard)) continue;
    const Contents coding = coding_of(c.code, from, text.size());
    for (std::size_t i = 0; i < text.size(); ++i) text[i] ^= coding.at(shard)[i];
  }
  in.expect_holds(from, "apply_delta reads");
  out.expect_holds(to, "apply_delta writes");
}

void check_encode_delta(Input& input, const Case& c) {
  const Contents texts = draw(input, c, true);
  if (texts.size() < 2) return;
  std::string old = texts.begin()->second, fresh = texts.rbegin()->second;
  const bufferptr a = buffer_of(input, old), b = buffer_of(input, fresh);
  bufferptr delta =
      input.ConsumeBool() ? a : buffer_of(input, content(input.ConsumeIntegral<std::uint8_t>(), 1));
  if (old.size() != fresh.size()) return;  // else the process ends
  const std::string before = test::text(delta);
  c.code.ours.encode_delta(a, b, &delta);
  if (old.empty()) return expect(test::text(delta) == before, "an unchanged delta");
  for (std::size_t i = 0; i < old.size(); ++i) old[i] ^= fresh[i];
  expect(test::text(delta) == old, "the delta");
  expect(test::text(b) == fresh, "the new data as it was");
}

void check_decode_chunks(Input& input, const Case& c) {
  const Contents from = draw(input, c, true);
  Contents to = draw(input, c, false);
  Map in(input, from), out(input, to);
  int right = is_sound(c, from, to, [](int, bool) { return true; }) ? 0 : -EINVAL;
  const bool makes_some = std::ranges::any_of(to, [&](const auto& e) { return !from.contains(e.first); });
  if (right == 0 && makes_some && from.size() < c.code.k) right = -EIO;
  const int answer = c.code.ours.decode_chunks({}, in, out);
  expect(answer == right, "{} from decode_chunks, not {}", right, answer);
  if (right != -EINVAL)
    for (auto& [shard, text] : to)
      if (from.contains(shard))
        text = from.at(shard);
      else if (right == 0)
        text = c.right.at(shard).substr(0, text.size());
  in.expect_holds(from, "decode_chunks reads");
  out.expect_holds(to, "decode_chunks writes");
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  Input input(data, size);
  const Code& code = draw_code<ec::ceph::Tentacle>(input);
  const auto verb = input.ConsumeIntegralInRange<std::size_t>(0, 3);
  Case c{code, {}, input.ConsumeIntegralInRange<std::size_t>(0, 200)};
  Contents chunks;
  for (unsigned d = 0; d < code.k; ++d)
    chunks[code.shards[d]] =
        content(c.bytes, static_cast<std::uint8_t>(17 * d + input.ConsumeIntegral<std::uint8_t>()));
  c.right = coding_of(c.code, chunks, c.bytes);
  c.right.merge(chunks);
  constexpr std::array checks{check_encode_chunks, check_apply_delta, check_encode_delta,
                              check_decode_chunks};
  checks[verb](input, c);
  return 0;
}
