// Our plugin against Ceph's own isa and jerasure in one process, under its own name and under theirs: the
// same profiles taken, refused and completed, the same sizes, answers and bytes by every function, and each
// decodes what the other wrote. Runs in hosts of every release (tools/ceph-release). EC_TEST_SEED repeats a
// run; every failure names its draw.
#include "tests/plugin/ceph/roles.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "plugin/ceph/tentacle.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

using ::ceph::bufferlist;
using ::ceph::bufferptr;
using ::ceph::tentacle::BufferMap;
using ::ceph::tentacle::ListMap;
using ::ceph::tentacle::ShardIdMap;
using ::ceph::tentacle::ShardIdSet;
using ::ceph::tentacle::SubChunks;

/// A code of ours, and the same one of Ceph's own.
struct Pair {
  Code ours, stock;
  bool in_role = true;  ///< Ours is taken for the other, and so reads the same chunks.
  /// Where ours keeps each chunk, data first; stock plugins do not code by a mapping.
  std::vector<int> shards = {};
  /// Whether Ceph 20 may do the same with pools of both. To ours under its own name it may do all that it
  /// has.
  bool same_pools = true;
};

/// Codes that differ in shape alone.
struct Family {
  bool in_role;
  std::string role, technique;
  unsigned least_m, most_m;  ///< that it takes; 10: more than is tried

  Pair pair(unsigned k, unsigned m, Profile others = {}) const {
    const auto made = [&](const std::string& plugin, const std::string& by) {
      Profile profile = profile_of(by, k, m);
      profile.insert(others.begin(), others.end());
      return Code(make(plugin, profile));
    };
    const bool by_its_name = !in_role && role == "jerasure";
    return {made(in_role ? role : "cuda", (by_its_name ? "jerasure_" : "") + technique),
            made("stock" + role, technique),
            in_role,
            {},
            !by_its_name};
  }
  std::string name() const { return (in_role ? "as_" : "beside_") + role + "_" + technique; }
};
const Family families[] = {
    {false, "isa", "reed_sol_van", 1, 4},       {false, "isa", "cauchy", 1, 10},
    {false, "jerasure", "reed_sol_van", 1, 10}, {false, "jerasure", "reed_sol_r6_op", 2, 2},
    {true, "isa", "reed_sol_van", 1, 4},        {true, "isa", "cauchy", 1, 10},
    {true, "jerasure", "reed_sol_van", 1, 10},  {true, "jerasure", "reed_sol_r6_op", 2, 2}};

// --- Random profiles.

const std::string& one_of(Draw& draw, const std::vector<std::string>& texts) {
  return texts[draw.number(0, texts.size() - 1)];
}
bool one_in(Draw& draw, unsigned n) { return draw.number(1, n) == 1; }

/// Numbers, most of them good ones.
std::string number_text(Draw& draw, unsigned highest) {
  if (one_in(draw, 12))
    return one_of(draw, {"", " 4", "+3", "-2", "4 ", "4a", "0", "1", "0x4", "99999999999"});
  return std::to_string(draw.number(2, highest));
}

/// What every plugin may be given besides.
void add_others(Draw& draw, Profile& profile) {
  if (one_in(draw, 6)) profile["crush-root"] = one_of(draw, {"", "default", "ssd"});
  if (one_in(draw, 6)) profile["crush-failure-domain"] = one_of(draw, {"", "osd", "rack"});
  if (one_in(draw, 6)) profile["crush-device-class"] = one_of(draw, {"", "hdd"});
  if (one_in(draw, 20)) profile["crush-num-failure-domains"] = one_of(draw, {"", "0", "3", "x"});
  if (one_in(draw, 20)) profile["crush-osds-per-failure-domain"] = one_of(draw, {"", "0", "2", "y"});
  if (one_in(draw, 8)) profile["stripe_unit"] = one_of(draw, {"4096", "4K", "nonsense"});
  if (one_in(draw, 8)) profile["backend"] = one_of(draw, {"gpu", "nonsense"});
  if (one_in(draw, 8)) profile["directory"] = "/nowhere";
  if (one_in(draw, 8)) profile["ruleset-root"] = "x";
  if (one_in(draw, 16)) profile[one_of(draw, {"K", "scalar_mds", "l", "d"})] = "8";
}

/// One that moves no chunk, for all others have these plugins lose data.
void add_mapping(Draw& draw, Profile& profile) {
  const auto digits = [&](const char* key) {
    return profile.contains(key) ? static_cast<unsigned>(std::strtoul(profile[key].c_str(), nullptr, 10)) : 3;
  };
  const unsigned k = std::min(digits("k"), 40u), m = std::min(digits("m"), 40u);
  if (one_in(draw, 10))
    profile["mapping"] = std::string(k, 'D') + std::string(m + (one_in(draw, 4) ? 1 : 0), '_');
}

Profile isa_profile(Draw& draw) {
  Profile profile{{"plugin", "isa"}};
  const bool is_cauchy = one_in(draw, 2);
  if (!one_in(draw, 8))
    profile["technique"] = one_in(draw, 20) ? one_of(draw, {"", "Cauchy", "reed_sol_r6_op"})
                           : is_cauchy      ? "cauchy"
                                            : "reed_sol_van";
  if (!one_in(draw, 10)) profile["k"] = number_text(draw, one_in(draw, 4) ? 40 : 12);
  if (!one_in(draw, 10)) profile["m"] = number_text(draw, one_in(draw, 8) ? 40 : is_cauchy ? 8 : 5);
  if (one_in(draw, 4)) profile["w"] = one_of(draw, {"8", "7", "x"});
  add_others(draw, profile);
  add_mapping(draw, profile);
  return profile;
}

/// Of the techniques that the stock plugin codes in any case, and only such as do not have it spoil memory.
Profile bitmatrix_profile(Draw& draw) {
  const std::string technique = one_of(draw, {"liberation", "blaum_roth", "liber8tion"});
  Profile profile{{"technique", technique}, {"k", std::to_string(draw.number(2, 5))}, {"packetsize", "64"}};
  if (technique == "blaum_roth") profile["w"] = "6";
  add_others(draw, profile);
  return profile;
}

Profile jerasure_profile(Draw& draw) {
  if (one_in(draw, 10)) return bitmatrix_profile(draw);
  Profile profile{{"plugin", "jerasure"}};
  const std::string technique = one_in(draw, 8)   ? one_of(draw, {"cauchy_orig", "cauchy_good"})
                                : one_in(draw, 4) ? "reed_sol_r6_op"
                                                  : "reed_sol_van";
  const bool is_ours = technique.starts_with("reed");
  if (!one_in(draw, 20))
    profile["technique"] = one_in(draw, 20) ? one_of(draw, {"", "cauchy", "x"}) : technique;
  if (!one_in(draw, 10)) profile["k"] = number_text(draw, !is_ours ? 7 : one_in(draw, 4) ? 40 : 12);
  if (technique == "reed_sol_van" || technique.starts_with("cauchy")) {
    if (!one_in(draw, 10)) profile["m"] = number_text(draw, one_in(draw, 8) && is_ours ? 30 : 6);
  } else if (one_in(draw, 2)) {
    profile["m"] = one_in(draw, 8) ? number_text(draw, 3) : "2";
  }
  if (is_ours && one_in(draw, 3))
    profile["w"] = one_of(draw, {"8", "8", "8", "", " 8", "16", "32", "7", "x"});
  if (one_in(draw, 4)) profile["packetsize"] = is_ours ? one_of(draw, {"2048", "x", ""}) : "64";
  if (one_in(draw, 3))
    profile["jerasure-per-chunk-alignment"] = one_of(draw, {"true", "yes", "false", "no", "1", ""});
  add_others(draw, profile);
  add_mapping(draw, profile);
  return profile;
}

/// Chunks of 64 KiB and less are asked for only where the stock plugin does not end the process: it does
/// where a chunk is shorter than what it rounds to with jerasure-per-chunk-alignment.
unsigned object_bytes(Draw& draw, const Profile& profile, unsigned k) {
  const auto at = profile.find("jerasure-per-chunk-alignment");
  const bool per_chunk = at != profile.end() && (at->second == "true" || at->second == "yes");
  const unsigned least = per_chunk ? k * (64 << 10) : 1;
  return least + static_cast<unsigned>(draw.length(1 << 20));
}

// --- Calls.

/// Ceph's isa copies a kept table as if it were of this m, beyond its end; what it copies too much is not
/// used.
#ifdef __SANITIZE_ADDRESS__
constexpr bool has_stock_decode = false;
#else
constexpr bool has_stock_decode = true;
#endif

/// Ceph 20's isa ends the process where it adds up more than 32 data chunks (ErasureCodeIsa::isa_xor).
bool has_stock_encode(const std::string& role, const Code& stock) {
  return host_release() < 20 || role != "isa" || stock.k() <= 32 || stock.n() - stock.k() > 1;
}

Chunks chunks_of(const ListMap& map) {
  Chunks chunks;
  for (std::size_t s = 0; s < map.slots.size(); ++s)
    if (map.slots[s]) chunks[static_cast<int>(s)] = *map.slots[s];
  EXPECT_EQ(chunks.size(), map.entries);
  return chunks;
}

/// A stripe as the stock code makes it, and random calls on it of both codes, or by a mapping of ours alone.
class Comparison {
 public:
  Comparison(const Pair& pair, Draw& draw, std::size_t bytes)
      : pair_(pair),
        draw_(draw),
        k_(pair.stock.k()),
        all_(first_chunks(pair.stock.n())),
        shards_(pair.shards.empty() ? std::vector(all_.begin(), all_.end()) : pair.shards),
        data_(shards_.begin(), shards_.begin() + k_),
        coding_(shards_.begin() + k_, shards_.end()),
        object_(draw.bytes(bytes, static_cast<unsigned>(draw.number(1, 21)))),
        trace_(__FILE__, __LINE__, fmt::format("{} bytes", bytes)) {
    const std::string before = flat(object_);
    right_ = in_place(pair.stock.encode(object_));
    EXPECT_EQ(difference(pair.ours.encode(object_), right_, all_), "");
    EXPECT_TRUE(flat(object_) == before) << "the input has changed";
    for (int s : all_) bytes_[s] = flat(right_[s]);
  }

  /// By the interface that both have; then what optimised pools of Ceph 20 ask for, of those that speak it.
  void run(bool of_optimised_pools = true) {
    compare_sizes();
    compare_reads();
    compare_encode();
    compare_decode();
    if (!of_optimised_pools) return;
    compare_lists();
    compare_encode_chunks();
    compare_delta();
    compare_decode_chunks();
  }

 private:
  Chunks in_place(const Chunks& chunks) const {
    Chunks mapped;
    for (const auto& [c, list] : chunks) mapped[shards_[static_cast<unsigned>(c)]] = list;
    return mapped;
  }
  /// What this data makes of the coding shards, by the stock code.
  std::map<int, std::string> coded(const std::map<int, std::string>& data) const {
    bufferlist object;
    for (unsigned c = 0; c < k_; ++c) object.append(data.at(shards_[c]));
    std::map<int, std::string> made;
    for (const auto& [s, list] : in_place(pair_.stock.encode(object))) made[s] = flat(list);
    return made;
  }
  bool is_mapped() const { return !pair_.shards.empty(); }
  Shards some(const Shards& of, std::size_t least = 0) {
    return draw_.subset(of, static_cast<unsigned>(draw_.number(least, of.size())));
  }
  Shards lost() { return draw_.subset(all_, static_cast<unsigned>(draw_.number(1, coding_.size()))); }
  /// Stock plugins want buffers aligned alike.
  bufferptr buffer_for(const ::ceph::tentacle::ErasureCodeInterface& code, const std::string& content,
                       unsigned offset) const {
    return buffer_of(content, &code == pair_.ours.tentacle() ? offset : 0);
  }
  bufferptr room_for(const ::ceph::tentacle::ErasureCodeInterface& code) const {
    return buffer_for(code, std::string(bytes_.at(0).size(), '?'), 7);
  }

  /// Checks an answer of each code.
  template <class Check>
  void on_both(const char* what, bool with_stock, Check check) {
    SCOPED_TRACE(what);
    for (const Code* code : {&pair_.ours, &pair_.stock}) {
      if (code == &pair_.stock && (!with_stock || is_mapped())) continue;
      SCOPED_TRACE(code == &pair_.ours ? "ours" : "stock");
      code->with(check);
    }
  }
  /// The same by Ceph 20's functions, of codes that have them.
  template <class Check>
  void on_tables(const char* what, Check check) {
    SCOPED_TRACE(what);
    for (const Code* code : {&pair_.ours, &pair_.stock}) {
      if (code->tentacle() == nullptr || (code == &pair_.stock && is_mapped())) continue;
      SCOPED_TRACE(code == &pair_.ours ? "ours" : "stock");
      check(*code->tentacle());
    }
  }

  void compare_sizes() {
    const auto width = object_.length() + static_cast<unsigned>(draw_.length(1 << 24));
    EXPECT_EQ(pair_.ours.sizes(width), pair_.stock.sizes(width)) << width;
    if (pair_.same_pools && pair_.ours.tentacle() != nullptr && pair_.stock.tentacle() != nullptr) {
      EXPECT_EQ(pair_.ours.optimizations(), pair_.stock.optimizations());
    }
    const auto mapping = pair_.stock.mapping();
    EXPECT_TRUE(is_mapped() || mapping.size() != all_.size() || pair_.ours.mapping() == mapping);
  }

  /// -EIO where fewer than k are there of which not all are wanted.
  int right_answer(const Shards& want, const Shards& there) const {
    return std::ranges::includes(there, want) || there.size() >= k_ ? 0 : -EIO;
  }
  /// Which k chunks are read when a wanted one is lost is up to the plugin; that it is k is not.
  void expect_suffices(const Shards& read, const Shards& want, const Shards& there) const {
    EXPECT_TRUE(std::ranges::includes(there, read)) << fmt::format("{}", read);
    EXPECT_TRUE(std::ranges::includes(there, want) ? read == want : read.size() == k_)
        << fmt::format("{}", read);
  }

  void compare_reads() {
    const Shards want = some(all_, 1), there = some(all_);
    std::map<int, int> costs;
    for (int s : there) costs[s] = static_cast<int>(draw_.number(0, 9));
    SCOPED_TRACE(fmt::format("want {} of {}", want, costs));
    const auto total = [&](const Shards& shards) {
      int sum = 0;
      for (int s : shards) sum += costs.at(s);
      return sum;
    };
    const auto [error, read] = pair_.ours.reads(want, there);
    const auto [cost_error, cheapest] = pair_.ours.cheapest_reads(want, costs);
    EXPECT_EQ(error, right_answer(want, there));
    EXPECT_EQ(cost_error, error);
    if (error == 0) expect_suffices(read, want, there);
    if (is_mapped()) return;
    const auto [stock_error, stock_read] = pair_.stock.reads(want, there);
    const auto [stock_cost_error, stock_cheapest] = pair_.stock.cheapest_reads(want, costs);
    EXPECT_EQ(error, stock_error);
    EXPECT_EQ(cost_error, stock_cost_error);
    if (pair_.in_role) {
      EXPECT_EQ(read, stock_read);
      EXPECT_EQ(cheapest, stock_cheapest);
    }
    if (cost_error == 0) {
      EXPECT_LE(total(cheapest), total(stock_cheapest));
    }
  }

  void compare_encode() {
    const Shards wanted = some(all_);
    on_both("encode", true, [&](auto& code) {
      Chunks out;
      EXPECT_EQ(code.encode(wanted, object_, &out), 0);
      EXPECT_EQ(out.size(), wanted.size());
      EXPECT_EQ(difference(out, right_, wanted), "");
    });
    on_both("encode_chunks", true, [&](auto& code) {
      Chunks chunks = deep_copy(right_);
      for (int s : coding_) chunks[s].zero();
      EXPECT_EQ(code.encode_chunks(all_, &chunks), 0);
      EXPECT_EQ(difference(chunks, right_, all_), "");
    });
  }

  /// Of chunks as they come over the network: each in buffers of its own, cut anywhere.
  void compare_decode() {
    const Shards gone = lost(), wanted = draw_.number(0, 1) != 0 ? gone : some(all_, 1);
    SCOPED_TRACE(fmt::format("want {}, lost {}", wanted, gone));
    Chunks there = without(right_, gone);
    for (auto& [s, list] : there)
      list = draw_.in_pieces(bytes_[s], static_cast<unsigned>(draw_.number(1, 9)));
    on_both("decode", has_stock_decode, [&](auto& code) {
      Chunks out;
      EXPECT_EQ(code.decode(wanted, there, &out, static_cast<int>(bytes_[0].size())), 0);
      EXPECT_EQ(difference(out, right_, wanted), "");
    });
    on_both("decode_chunks", has_stock_decode, [&](auto& code) {
      Chunks out = deep_copy(right_);
      for (int s : gone) out[s].zero();
      EXPECT_EQ(code.decode_chunks(gone, there, &out), 0);
      EXPECT_EQ(difference(out, right_, all_), "");
    });
    on_both("decode_concat", has_stock_decode, [&](auto& code) {
      bufferlist out;
      EXPECT_EQ(code.decode_concat(there, &out), 0);
      std::string object;
      for (unsigned c = 0; c < k_; ++c) object += bytes_[shards_[c]];
      EXPECT_TRUE(flat(out) == object);
    });
    for (const auto& [s, list] : there) EXPECT_TRUE(flat(list) == bytes_[s]) << "chunk " << s << " changed";
  }

  /// The functions above on sets and maps of shards.
  void compare_lists() {
    const Shards gone = lost(), wanted = some(all_, 1), there = some(all_);
    ShardIdSet want, available;
    fill(want, wanted);
    fill(available, there);
    const Chunks left = without(right_, gone);
    on_tables("encode", [&](auto& code) {
      ListMap out(all_.size());
      EXPECT_EQ(code.encode(want, object_, &out), 0);
      EXPECT_EQ(difference(chunks_of(out), right_, wanted), "");
    });
    on_tables("decode", [&](auto& code) {
      ListMap in(all_.size()), out(all_.size());
      for (const auto& [s, list] : left) insert(in, s, list);
      EXPECT_EQ(code.decode(want, in, &out, static_cast<int>(bytes_[0].size())), 0);
      EXPECT_EQ(difference(chunks_of(out), right_, wanted), "");
    });
    on_tables("decode_concat of some", [&](auto& code) {
      bufferlist out;
      EXPECT_EQ(code.decode_concat(Shards{shards_[1]}, left, &out), 0);
      EXPECT_TRUE(flat(out) == bytes_[shards_[1]]);
    });
    ShardIdMap<int> costs(all_.size());
    for (int s : there) insert(costs, s, 1);
    for (const bool with_parts : {false, true})
      on_tables("minimum_to_decode", [&](auto& code) {
        ShardIdSet minimum, cheapest;
        ShardIdMap<SubChunks> parts(all_.size());
        EXPECT_EQ(code.minimum_to_decode_with_cost(want, costs, &cheapest), right_answer(wanted, there));
        const int answer = code.minimum_to_decode(want, available, minimum, with_parts ? &parts : nullptr);
        EXPECT_EQ(answer, right_answer(wanted, there));
        if (answer != 0) return;
        const Shards read = shards_of(minimum);
        expect_suffices(read, wanted, there);
        EXPECT_EQ(parts.entries, with_parts ? read.size() : 0u);
        if (with_parts) {
          for (int s : read) EXPECT_EQ(at(parts, s), (SubChunks{{0, 1}}));
        }
      });
  }

  /// Of data that is zero in part, and of which a part is not there, which is the same.
  void compare_encode_chunks() {
    const Shards present = some(data_, 1), wanted = some(coding_, 1), zeros = some(present);
    const bufferptr zero = buffer_of(std::string(bytes_[0].size(), '\0'));
    std::map<int, std::string> data;
    for (int s : data_) data[s] = present.contains(s) && !zeros.contains(s) ? bytes_[s] : text(zero);
    const auto right = coded(data);
    on_tables("encode_chunks of buffers", [&](auto& code) {
      BufferMap in(all_.size()), out(all_.size());
      for (int s : present) insert(in, s, zeros.contains(s) ? zero : buffer_for(code, bytes_[s], 70));
      // isa has one buffer for absent inputs and absent outputs, and so reads what it wrote.
      for (int s : &code == pair_.stock.tentacle() ? coding_ : wanted) insert(out, s, room_for(code));
      EXPECT_EQ(code.encode_chunks(in, out), 0);
      for (int s : present) EXPECT_TRUE(text(at(in, s)) == data[s]) << "an input changed";
      expect_holds(out, right);
    });
    EXPECT_EQ(text(zero), std::string(zero.length(), '\0'));
  }

  void compare_delta() {
    const Shards changed = some(data_, 1), kept = some(coding_, 1);
    std::map<int, std::string> fresh = bytes_;
    for (int s : changed) fresh[s] = flat(draw_.bytes(bytes_[s].size(), 1));
    const auto right = coded(fresh);
    on_tables("encode_delta and apply_delta", [&](auto& code) {
      BufferMap in(all_.size()), out(all_.size());
      for (int s : changed) {
        const bufferptr old = buffer_of(bytes_[s]);
        bufferptr delta = room_for(code);
        // Ours also takes the buffer of the old data, and one of another length.
        if (&code == pair_.ours.tentacle() && s % 3 != 2) delta = s % 3 == 0 ? old : bufferptr();
        code.encode_delta(old, buffer_of(fresh[s]), &delta);
        insert(in, s, delta);
      }
      for (int s : kept) insert(out, s, buffer_of(bytes_[s]));
      code.apply_delta(in, out);
      expect_holds(out, right);
    });
  }

  void compare_decode_chunks() {
    const Shards gone = lost(), wanted = some(gone, 1);
    on_tables("decode_chunks of buffers", [&](auto& code) {
      ShardIdSet want;
      fill(want, wanted);
      BufferMap in(all_.size()), out(all_.size());
      for (const auto& [s, list] : without(right_, gone)) insert(in, s, buffer_for(code, bytes_[s], 70));
      for (int s : wanted) insert(out, s, room_for(code));
      EXPECT_EQ(code.decode_chunks(want, in, out), 0);
      expect_holds(in, bytes_);
      expect_holds(out, bytes_);
    });
  }
  static void expect_holds(const BufferMap& map, const std::map<int, std::string>& right) {
    for (std::size_t s = 0; s < map.slots.size(); ++s)
      if (map.slots[s]) {
        EXPECT_TRUE(text(*map.slots[s]) == right.at(static_cast<int>(s))) << "shard " << s;
      }
  }

  const Pair& pair_;
  Draw& draw_;
  const unsigned k_;
  const Shards all_;
  const std::vector<int> shards_;
  const Shards data_, coding_;
  const bufferlist object_;
  testing::ScopedTrace trace_;
  Chunks right_;
  std::map<int, std::string> bytes_;
};

// --- Profiles.

/// Whether it was taken.
bool compare_profile(const std::string& role, const Profile& profile, Draw& draw, bool with_bytes) {
  SCOPED_TRACE(fmt::format("{}", profile));
  Made ours = make(role, profile), stock = make("stock" + role, profile);
  EXPECT_EQ(ours.error, stock.error) << "ours: " << ours.why << " stock: " << stock.why;
  EXPECT_EQ(ours.why.empty(), stock.why.empty());
  if (ours.error != 0 || stock.error != 0) return false;
  EXPECT_EQ(ours.profile, stock.profile);
  const bool is_by_ours = std::filesystem::canonical(file_of(ours.code)).filename() == "libec_cuda.so";
  EXPECT_EQ(is_by_ours, role == "isa" || (stock.profile["technique"].starts_with("reed_sol_") &&
                                          std::stoi(stock.profile["w"]) == 8));
  const Pair pair{Code(std::move(ours)), Code(std::move(stock))};
  for (unsigned i = 0; i < 40; ++i) {
    const unsigned bytes = object_bytes(draw, profile, pair.stock.k());
    EXPECT_EQ(pair.ours.sizes(bytes), pair.stock.sizes(bytes)) << bytes;
  }
  if (with_bytes && has_stock_encode(role, pair.stock) && !testing::Test::HasFailure())
    Comparison(pair, draw, object_bytes(draw, profile, pair.stock.k())).run(is_by_ours);
  return true;
}

void compare_profiles(const std::string& role, Profile (*random_profile)(Draw&)) {
  constexpr unsigned draws = 6000;
  unsigned taken = 0;
  for (unsigned i = 0; i < draws; ++i) {
    const std::uint64_t seed = base_seed() + i;
    SCOPED_TRACE(fmt::format("draw {} (EC_TEST_SEED={} makes it the first)", i, seed));
    Draw draw(seed);
    const Profile profile = random_profile(draw);
    taken += compare_profile(role, profile, draw, i % 8 == 0) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  fmt::print("{} profiles, {} taken\n", draws, taken);
  EXPECT_GT(taken, draws / 4);
  EXPECT_LT(taken, draws - draws / 20) << "too few are refused to say anything";
}

TEST(RoleIsa, TakesCompletesAndRefusesTheSameProfiles) { compare_profiles("isa", isa_profile); }
TEST(RoleJerasure, TakesCompletesAndRefusesTheSameProfiles) {
  compare_profiles("jerasure", jerasure_profile);
}

// --- Bytes.

// An ISA-L that this program exposed would take the place of the one in the stock plugin, and our plugin
// would be compared with itself.
TEST(Identity, EachPluginRunsItsOwnIsaL) { EXPECT_EQ(dlsym(RTLD_DEFAULT, "ec_encode_data"), nullptr); }

class Identity : public testing::TestWithParam<Family> {
 protected:
  /// `use(pair)` for every shape of up to 20+6.
  template <class Use>
  void for_shapes(Use use) {
    const Family& family = GetParam();
    for (unsigned k = 2; k <= 20; ++k)
      for (unsigned m = family.least_m; m <= std::min(family.most_m, 6u); ++m) {
        SCOPED_TRACE(fmt::format("{}+{}", k, m));
        use(family.pair(k, m));
        if (HasFailure()) return;
      }
  }
  Draw draw_{base_seed()};
};
INSTANTIATE_TEST_SUITE_P(Families, Identity, testing::ValuesIn(families),
                         [](const auto& info) { return info.param.name(); });

TEST_P(Identity, EveryShape) {
  for_shapes([&](const Pair& pair) {
    const unsigned k = pair.stock.k();
    for (const std::size_t bytes : {std::size_t{k} * 4096, draw_.length(200'000), draw_.length(5000)})
      Comparison(pair, draw_, bytes).run();
  });
}

TEST_P(Identity, ChunkSizeForEveryWidth) {
  for_shapes([&](const Pair& pair) {
    const auto compare = [&](unsigned width) {
      ASSERT_EQ(pair.ours.sizes(width), pair.stock.sizes(width)) << width;
    };
    for (unsigned width = 1; width <= 32 * 33 * 4 && !HasFailure(); ++width) compare(width);
    for (unsigned i = 0; i < 500; ++i) compare(static_cast<unsigned>(draw_.length(std::uint64_t{1} << 31)));
  });
}

TEST_P(Identity, EveryLengthAroundChunkAndAlignment) {
  const unsigned m = std::max(2u, GetParam().least_m);
  for (const unsigned k : {2u, 4u, 7u}) {
    const Pair pair = GetParam().pair(k, m);
    for (std::size_t length = 1; length <= 32 * k * 2 + k + 1 && !HasFailure(); ++length)
      Comparison(pair, draw_, length).run();
  }
}

TEST_P(Identity, RandomCalls) {
  constexpr unsigned shapes = 60, draws = 125;
  for (unsigned i = 0; i < shapes; ++i) {
    const std::uint64_t seed = base_seed() + i;
    Draw draw(seed);
    const unsigned k = static_cast<unsigned>(draw.number(2, 20));
    const unsigned m =
        static_cast<unsigned>(draw.number(GetParam().least_m, std::min(GetParam().most_m, 6u)));
    SCOPED_TRACE(fmt::format("{}+{}, shape {} (EC_TEST_SEED={} makes it the first)", k, m, i, seed));
    const Pair pair = GetParam().pair(k, m);
    for (unsigned d = 0; d < draws && !HasFailure(); ++d)
      Comparison(pair, draw, draw.length(d % 20 == 0 ? 4 << 20 : 256 << 10)).run();
    if (HasFailure()) return;
  }
}

TEST_P(Identity, HugeInputs) {
  for (const std::size_t length :
       {(std::size_t{64} << 20) + 1, static_cast<std::size_t>(draw_.number(8'000'000, 70'000'000))}) {
    const auto in = draw_.bytes(length, 3);
    const Pair pair =
        GetParam().pair(static_cast<unsigned>(draw_.number(2, 12)), std::max(2u, GetParam().least_m));
    const Chunks right = pair.stock.encode(in);
    EXPECT_EQ(difference(pair.ours.encode(in), right, first_chunks(pair.stock.n())), "");
    EXPECT_EQ(difference(pair.ours.decode(right, {0, 1}), right, {0, 1}), "");
  }
}

// The stock plugin divides by zero here, so only ours is asked.
TEST_P(Identity, NothingEncodesToEmptyChunks) {
  for_shapes([](const Pair& pair) {
    const Chunks ours = pair.ours.encode({});
    ASSERT_EQ(ours.size(), pair.ours.n());
    for (const auto& [c, bytes] : ours) ASSERT_EQ(bytes.length(), 0u) << "chunk " << c;
  });
}

/// Calls `use` with every set of 1 to m of n chunks.
template <class Use>
void each_loss(unsigned n, unsigned m, Use use) {
  for (unsigned bits = 1; bits < 1u << n; ++bits) {
    std::set<int> lost;
    for (unsigned c = 0; c < n; ++c)
      if ((bits >> c & 1) != 0) lost.insert(static_cast<int>(c));
    if (lost.size() <= m) use(lost);
  }
}

TEST_P(Identity, EveryLossOfCodesOfUpTo12Chunks) {
  const Family& family = GetParam();
  unsigned decoded = 0;
  for (unsigned n = 3; n <= 12; ++n)
    for (unsigned m = family.least_m; m <= std::min(family.most_m, n - 2); ++m) {
      SCOPED_TRACE(fmt::format("{}+{}", n - m, m));
      const Pair pair = family.pair(n - m, m);
      const auto in = draw_.bytes((n - m) * 96, 3);
      const Chunks all = pair.stock.encode(in);
      ASSERT_EQ(difference(pair.ours.encode(in), all, first_chunks(n)), "");
      each_loss(n, m, [&](const std::set<int>& lost) {
        ++decoded;
        ASSERT_EQ(difference(pair.ours.decode(all, lost), all, lost), "") << fmt::format("lost {}", lost);
      });
      if (HasFailure()) return;
    }
  fmt::print("{} losses decoded\n", decoded);
}

TEST(Identity, OfWideCodesAndOfChunksThatAreAlignedByThemselves) {
  Draw draw(base_seed());
  for (const auto& [family, k, m] : {std::tuple(1, 32u, 8u),
                                     {0, 21, 4},
                                     {0, 32, 3},
                                     {6, 64, 60},
                                     {6, 100, 20},
                                     {6, 120, 3},
                                     {6, 32, 30}}) {
    SCOPED_TRACE(fmt::format("{} {}+{}", families[family].name(), k, m));
    const Pair pair = families[family].pair(k, m);
    for (unsigned i = 0; i < 3; ++i) Comparison(pair, draw, draw.length(200'000)).run();
  }
  for (const unsigned k : {2u, 4u, 7u, 8u, 12u}) {
    const Pair pair = families[6].pair(k, 3, {{"jerasure-per-chunk-alignment", "true"}});
    for (unsigned i = 0; i < 20; ++i) Comparison(pair, draw, k * 128 + draw.length(100'000)).run();
  }
}

/// Where Ceph's plugins cannot say it: by the door of this host, and by Ceph 20's.
TEST(Identity, OfMappedChunksByBothDoors) {
  Draw draw(base_seed());
  for (const auto& [technique, mapping] : {std::pair("reed_sol_van", "DDDD__"),
                                           {"cauchy", "_DD_DD"},
                                           {"reed_sol_van", "DDD_DDDD_D_"},
                                           {"cauchy", "DDD_"},
                                           {"cauchy", "____DDDDDDDDDD"},
                                           {"cauchy", "DDDDDDDDDDDDDDDDDDDD______"},
                                           {"reed_sol_van", "DD_"}}) {
    SCOPED_TRACE(mapping);
    std::vector<int> shards;
    for (const char kind : {'D', '_'})
      for (int s = 0; mapping[s] != '\0'; ++s)
        if (mapping[s] == kind) shards.push_back(s);
    const auto k = static_cast<unsigned>(std::ranges::count(std::string_view(mapping), 'D'));
    Profile profile = profile_of(technique, k, static_cast<unsigned>(shards.size()) - k);
    Code stock(make("stockisa", profile));
    profile["mapping"] = mapping;
    const auto tentacle = std::make_shared<ceph::Tentacle>();
    ASSERT_EQ(tentacle->init(profile, nullptr), 0);
    for (const Code& ours : {Code(make("cuda", profile)), Code(tentacle)}) {
      const Pair pair{ours, stock, false, shards};
      for (unsigned i = 0; i < 200 && !HasFailure(); ++i)
        Comparison(pair, draw, i % 10 == 0 ? 4096 * k : draw.length(20'000)).run();
    }
  }
}

// What an operator must never do: Ceph takes such a change of a profile.
TEST(Identity, OwnReedSolVanIsNotThatOfJerasure) {
  Draw draw(base_seed());
  const auto in = draw.bytes(40'000, 1);
  const Chunks ours = families[0].pair(4, 2).ours.encode(in), theirs = families[6].pair(4, 2).ours.encode(in);
  EXPECT_EQ(difference(ours, theirs, first_chunks(5)), "") << "data and the sum";
  EXPECT_NE(difference(ours, theirs, {5}), "");
}

TEST(RoleIsa, NamesItsLimits) {
  const auto why = [](const std::string& technique, unsigned k, unsigned m) {
    return make("isa", profile_of(technique, k, m)).why;
  };
  EXPECT_EQ(why("reed_sol_van", 33, 2), "k=33 must be at most 32 with technique=reed_sol_van");
  EXPECT_EQ(why("reed_sol_van", 8, 5), "m=5 must be at most 4 with technique=reed_sol_van");
  EXPECT_EQ(why("reed_sol_van", 22, 4), "k=22 must be at most 21 with technique=reed_sol_van and m=4");
  EXPECT_EQ(why("cauchy", 1, 2), "k=1 must be at least 2");
  EXPECT_EQ(why("cauchy", 2, 0), "m=0 must be at least 1");
  EXPECT_EQ(why("liberation", 4, 2), "technique=liberation must be one of reed_sol_van, cauchy");
  EXPECT_EQ(make("isa", {{"k", "4x"}}).why, "k=4x must be a whole number");
}

// The stock plugin takes it, and its coding chunks are written over data.
TEST(RoleIsa, RefusesAMappingThatMovesAChunk) {
  Profile profile = profile_of("reed_sol_van", 2, 1);
  profile["mapping"] = "_DD";
  const Made ours = make("isa", profile);
  EXPECT_EQ(ours.error, -EINVAL);
  EXPECT_NE(ours.why.find("mapping=_DD: "), ours.why.npos) << ours.why;
  EXPECT_EQ(make("stockisa", profile).error, 0);
}

}  // namespace
}  // namespace ec::test
