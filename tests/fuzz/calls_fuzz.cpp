// Ceph's calls on one stripe: any want sets and any chunks, shards that do not exist and chunks of unequal
// length among them. What can be answered is right, what cannot is refused with the error that says why.
#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "plugin/ceph/door.hpp"
#include "tests/fuzz/codes.hpp"

namespace ec::fuzz {
namespace {

using ::ceph::bufferlist;
using Chunks = std::map<int, bufferlist>;

using Code = CodeBehind<ceph::Classic>;

/// Mostly shards that exist.
std::set<int> draw_shards(Input& input, const Code& code) {
  std::set<int> shards;
  for (const unsigned c : chunk_set(input, code.k + code.m)) shards.insert(static_cast<int>(c));
  if (input.ConsumeIntegralInRange(0, 15) == 0) shards.insert(input.ConsumeIntegralInRange(-2, 300));
  return shards;
}

bool all_exist(const std::set<int>& shards, const Code& code) {
  return shards.empty() || (*shards.begin() >= 0 && *shards.rbegin() < static_cast<int>(code.k + code.m));
}

struct Case {
  const Code& code;
  std::string object;
  Contents right;
};

void check_encode(Input& input, const Case& c) {
  const auto want = draw_shards(input, c.code);
  Chunks encoded;
  const int answer = c.code.ours.encode(want, in_pieces(input, c.object), &encoded);
  expect(answer == 0, "0 from encode, not {}", answer);
  for (const auto& [shard, list] : encoded) {
    expect(want.contains(shard), "shard {} was not wanted", shard);
    expect(list.to_str() == c.right.at(shard), "encoded shard {}", shard);
  }
  for (const auto& [shard, text] : c.right)
    expect(encoded.contains(shard) == want.contains(shard), "shard {} was wanted", shard);
}

struct Survivors {
  std::set<int> there;
  Chunks chunks;
  bool equal = true;  ///< of one length
};

/// Some chunks of the stripe, in pieces; one may be of another length.
Survivors draw_survivors(Input& input, const Case& c, std::set<int> there) {
  Survivors s{std::move(there), {}};
  const bool odd = input.ConsumeIntegralInRange(0, 15) == 0 && s.there.size() > 1;
  const int at = odd ? input.ConsumeIntegralInRange<int>(0, static_cast<int>(s.there.size()) - 1) : -1;
  for (const int shard : s.there) {
    const auto right = c.right.find(shard);
    std::string text =
        right == c.right.end() ? std::string(c.right.begin()->second.size(), 'x') : right->second;
    if (odd && shard == *std::next(s.there.begin(), at)) text += 'x';
    s.chunks[shard] = in_pieces(input, text);
  }
  s.equal = !odd;
  return s;
}

void check_decode(Input& input, const Case& c) {
  const auto want = draw_shards(input, c.code);
  const auto [there, chunks, equal] = draw_survivors(input, c, draw_shards(input, c.code));
  const bool direct = std::ranges::includes(there, want);
  Chunks decoded;
  const int answer = c.code.ours.decode(want, chunks, &decoded, 0);
  int right = 0;
  if (!all_exist(want, c.code))
    right = -EINVAL;
  else if (!direct && !there.empty() && (!all_exist(there, c.code) || !equal))
    right = -EINVAL;
  else if (!direct && there.size() < c.code.k)
    right = -EIO;
  expect(answer == right, "{} from decode, not {}", right, answer);
  if (answer != 0) return;
  for (const int shard : want)
    expect(decoded.contains(shard) &&
               decoded.at(shard).to_str() ==
                   (there.contains(shard) ? chunks.at(shard).to_str() : c.right.at(shard)),
           "decoded shard {}", shard);
}

void check_decode_chunks(Input& input, const Case& c) {
  const auto [there, chunks, equal] = draw_survivors(input, c, draw_shards(input, c.code));
  if (!all_exist(there, c.code)) return;
  Chunks all;
  for (const auto& [shard, text] : c.right)
    all[shard] = in_pieces(input, there.contains(shard) ? text : std::string(text.size(), '?'));
  const int answer = c.code.ours.decode_chunks({}, chunks, &all);
  if (!equal || (there.size() < c.code.k))
    return expect(answer < 0 || there.size() == c.right.size(), "an error");
  expect(answer == 0, "0 from decode_chunks, not {}", answer);
  for (const auto& [shard, text] : c.right) expect(all.at(shard).to_str() == text, "shard {}", shard);
}

void check_concat(Input& input, const Case& c) {
  const auto [there, chunks, equal] = draw_survivors(input, c, draw_shards(input, c.code));
  if (!all_exist(there, c.code)) return;
  bufferlist out;
  const int answer = c.code.ours.decode_concat(chunks, &out);
  if (!equal) return;
  expect(answer == (there.size() < c.code.k ? -EIO : 0), "{} from decode_concat", answer);
  if (answer != 0) return;
  std::string object;
  for (unsigned d = 0; d < c.code.k; ++d) object += c.right.at(c.code.shards[d]);
  expect(out.to_str() == object, "the object, padded");
}

void check_encode_chunks(Input& input, const Case& c) {
  Chunks all;
  bool right = true;
  const auto there = input.ConsumeIntegralInRange(0, 7) == 0 ? draw_shards(input, c.code) : std::set<int>();
  for (unsigned chunk = 0; chunk < c.code.k + c.code.m; ++chunk) {
    const int shard = c.code.shards[chunk];
    if (!there.empty() && !there.contains(shard)) {
      right = false;
      continue;
    }
    const auto& text = c.right.at(shard);
    all[shard] = in_pieces(input, chunk < c.code.k ? text : std::string(text.size(), '?'));
  }
  const int answer = c.code.ours.encode_chunks({}, &all);
  expect(answer == (right ? 0 : -EINVAL), "{} from encode_chunks", answer);
  if (right)
    for (const auto& [shard, text] : c.right) expect(all.at(shard).to_str() == text, "shard {}", shard);
}

/// The least total cost, by the definition: of the k cheapest chunks, or of the wanted ones.
std::int64_t least_cost(const std::map<int, int>& costs, const std::set<int>& want, bool direct, unsigned k) {
  std::multiset<std::int64_t> by_cost;
  std::int64_t cheapest = 0, wanted = 0;
  for (const auto& [shard, cost] : costs) by_cost.insert(cost);
  if (by_cost.size() >= k)
    cheapest = std::accumulate(by_cost.begin(), std::next(by_cost.begin(), k), cheapest);
  if (!direct) return cheapest;
  for (const int shard : want) wanted += costs.at(shard);
  return by_cost.size() < k ? wanted : std::min(wanted, cheapest);
}

void check_minimum(Input& input, const Case& c) {
  const auto want = draw_shards(input, c.code);
  const auto there = draw_shards(input, c.code);
  std::map<int, std::vector<std::pair<int, int>>> minimum;
  std::set<int> cheapest;
  std::map<int, int> costs;
  for (const int shard : there)
    costs[shard] = input.ConsumeBool() ? input.ConsumeIntegral<std::int8_t>() : input.ConsumeIntegral<int>();
  const int first = c.code.ours.minimum_to_decode(want, there, &minimum);
  const int second = c.code.ours.minimum_to_decode_with_cost(want, costs, &cheapest);
  expect(first == second, "{} and {} alike", first, second);
  if (!all_exist(want, c.code) || !all_exist(there, c.code)) return expect(first == -EINVAL, "-EINVAL");
  const bool direct = std::ranges::includes(there, want);
  expect(first == (direct || there.size() >= c.code.k ? 0 : -EIO), "{} for what to read", first);
  if (first != 0) return;
  std::set<int> read;
  for (const auto& [shard, parts] : minimum) read.insert(shard);
  expect(std::ranges::includes(there, read) && std::ranges::includes(there, cheapest),
         "shards that are there");
  expect(direct ? read == want : read.size() == c.code.k, "no more than needed");
  expect(cheapest.size() == c.code.k || (direct && cheapest == want), "k shards or the wanted ones");
  std::int64_t cost = 0;
  for (const int shard : cheapest) cost += costs.at(shard);
  const auto least = least_cost(costs, want, direct, c.code.k);
  expect(cost == least, "a cost of {} and not {}", least, cost);
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  Input input(data, size);
  const Code& code = draw_code<ec::ceph::Classic>(input);
  const auto verb = input.ConsumeIntegralInRange<std::size_t>(0, 5);
  // Chunks of the longest objects are walked piece by piece, of the others as one copy.
  const int kind = input.ConsumeIntegralInRange(0, 7);
  const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, kind == 0 ? 40'000 : kind < 4 ? 2000 : 300);
  Case c{code, content(bytes, input.ConsumeIntegral<std::uint8_t>()), {}};
  if (verb != 0) c.right = stripe(code, c.object);
  constexpr std::array checks{check_minimum,       check_encode, check_decode,
                              check_decode_chunks, check_concat, check_encode_chunks};
  checks[verb](input, c);
  return 0;
}
