// The door for Ceph 20: every function on its sets and maps of shards against an oracle, the others against
// the door for Ceph 16 to 19, and what a host can hand in wrong.
#include "plugin/ceph/tentacle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "plugin/ceph/classic.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

using ::ceph::bufferlist;
using ::ceph::bufferptr;
using ::ceph::ErasureCodeProfile;
using ceph::Tentacle;
using ::ceph::tentacle::BufferMap;
using ::ceph::tentacle::ListMap;
using ::ceph::tentacle::ShardIdMap;
using ::ceph::tentacle::ShardIdSet;
using ::ceph::tentacle::SubChunks;
using Chunks = std::map<int, bufferlist>;
using Contents = std::map<int, std::string>;  ///< by shard

struct Shape {
  const char* technique;
  unsigned k, m;
  std::string mapping;
};
const std::vector<Shape> shapes{{"reed_sol_van", 2, 1, ""}, {"reed_sol_van", 4, 2, ""},
                                {"cauchy", 4, 2, "_DD_DD"}, {"reed_sol_van", 8, 3, "DDD_DDDD_D_"},
                                {"cauchy", 3, 1, ""},       {"cauchy", 10, 4, ""},
                                {"cauchy", 20, 6, ""}};

ErasureCodeProfile profile_of(const Shape& shape) {
  return {{"technique", shape.technique},
          {"k", std::to_string(shape.k)},
          {"m", std::to_string(shape.m)},
          {"mapping", shape.mapping}};
}

bufferlist list_of(const std::string& bytes, std::size_t cut) {
  bufferlist list;
  list.append(bytes.substr(0, cut));
  list.append(bytes.substr(cut));
  return list;
}

/// A code, and a stripe of it as it must be.
class Stripe {
 public:
  Stripe(const Shape& shape, Random& random, std::size_t bytes)
      : k(shape.k), n(shape.k + shape.m), bytes(bytes), random_(random), technique_(shape.technique) {
    ErasureCodeProfile profile = profile_of(shape);
    if (code.init(profile, nullptr) != 0) throw std::runtime_error(shape.technique);
    for (const bool want_data : {true, false})
      for (unsigned s = 0; s < n; ++s)
        if ((shape.mapping.empty() ? s < k : shape.mapping[s] == 'D') == want_data)
          (want_data ? data : coding).push_back(static_cast<int>(s));
    std::vector<oracle::Bytes> chunks = random.chunks(k, bytes);
    for (unsigned c = 0; c < k; ++c) right[data[c]] = {chunks[c].begin(), chunks[c].end()};
    right = with_coding(right);
  }

  /// The stripe with this data; shards that are not there are zero.
  Contents with_coding(const Contents& contents) const {
    std::vector<oracle::Bytes> chunks;
    Contents all;
    for (int s : data) {
      all[s] = contents.contains(s) ? contents.at(s) : std::string(bytes, '\0');
      chunks.emplace_back(all[s].begin(), all[s].end());
    }
    const auto made = oracle::apply(oracle::coding_matrix(technique_, k, n - k), chunks);
    for (unsigned c = 0; c < n - k; ++c) all[coding[c]] = {made[c].begin(), made[c].end()};
    return all;
  }
  Shards some(const std::vector<int>& of, std::size_t least = 0) {
    Shards shards;
    do {
      for (int s : of)
        if (random_.below(2) == 0) shards.insert(s);
    } while (shards.size() < least);
    return shards;
  }
  std::vector<int> all() const {
    std::vector<int> shards(n);
    for (unsigned s = 0; s < n; ++s) shards[s] = static_cast<int>(s);
    return shards;
  }
  /// At least k, and one is lost.
  Shards survivors() {
    Shards there;
    do there = some(all(), k);
    while (there.size() == n);
    return there;
  }
  bufferptr buffer(const std::string& content) {
    return buffer_of(content, random_.below(3) * random_.below(70));
  }
  BufferMap& put(BufferMap& map, const Shards& shards, const Contents& contents) {
    for (int s : shards) insert(map, s, buffer(contents.at(s)));
    return map;
  }
  BufferMap& put_room(BufferMap& map, const Shards& shards) {
    for (int s : shards) insert(map, s, buffer(std::string(bytes, '?')));
    return map;
  }
  static void expect_holds(BufferMap& map, const Contents& contents) {
    ceph::each_shard(map, [&](int s, const bufferptr& buffer) {
      EXPECT_TRUE(text(buffer) == contents.at(s)) << "shard " << s;
    });
  }

  const unsigned k, n;
  const std::size_t bytes;
  Tentacle code;
  std::vector<int> data, coding;  ///< their shards
  Contents right;

 private:
  Random& random_;
  const char* technique_;
};

class TentacleDoor : public testing::Test {
 protected:
  /// On stripes of every shape and of short, odd and long chunks.
  template <class Body>
  void on_stripes(Body body) {
    for (const Shape& shape : shapes)
      for (const std::size_t bytes : {32, 63, 1000, 4096, 4096, 4096, 20480}) {
        Stripe stripe(shape, random_, bytes);
        SCOPED_TRACE(testing::Message() << shape.technique << ' ' << shape.k << '+' << shape.m << ' '
                                        << shape.mapping << ' ' << bytes << " bytes");
        for (int i = 0; i < 5; ++i) body(stripe);
        if (HasFailure()) return;
      }
  }

  Random random_{20};
};

TEST_F(TentacleDoor, EncodesWhatIsThereAsIfTheRestWereZero) {
  on_stripes([](Stripe& stripe) {
    const Shards present = stripe.some(stripe.data), zeros = stripe.some(stripe.data);
    const Shards wanted = stripe.some(stripe.coding);
    Contents contents;
    BufferMap in(stripe.n), out(stripe.n);
    const bufferptr zero = buffer_of(std::string(stripe.bytes, '\0'));
    for (int s : present) {
      contents[s] = zeros.contains(s) ? text(zero) : stripe.right.at(s);
      insert(in, s, zeros.contains(s) ? zero : stripe.buffer(contents[s]));
    }
    ASSERT_EQ(stripe.code.encode_chunks(in, stripe.put_room(out, wanted)), 0);
    Stripe::expect_holds(out, stripe.with_coding(contents));
    Stripe::expect_holds(in, contents);
  });
}

TEST_F(TentacleDoor, BringsCodingUpToDateByDeltas) {
  on_stripes([](Stripe& stripe) {
    const Shards changed = stripe.some(stripe.data, 1), kept = stripe.some(stripe.coding);
    Contents fresh = stripe.right;
    BufferMap in(stripe.n), out(stripe.n);
    for (int s : changed) {
      std::ranges::reverse(fresh[s]);
      // The buffer of the old data, one of its own, and one of another length.
      bufferptr old = stripe.buffer(stripe.right[s]), delta = s % 3 == 0 ? old : stripe.buffer(fresh[s]);
      if (s % 3 == 1) delta = bufferptr();
      stripe.code.encode_delta(old, stripe.buffer(fresh[s]), &delta);
      insert(in, s, delta);
    }
    stripe.code.apply_delta(in, stripe.put(out, kept, stripe.right));
    Stripe::expect_holds(out, stripe.with_coding(fresh));
  });
}

TEST_F(TentacleDoor, DecodesWhereTheChunksAre) {
  on_stripes([](Stripe& stripe) {
    const Shards there = stripe.survivors(), wanted = stripe.some(stripe.all());
    ShardIdSet want;
    fill(want, Shards{stripe.data.begin(), stripe.data.end()});  // more than `out` has
    BufferMap in(stripe.n), out(stripe.n);
    stripe.put(in, there, stripe.right);
    ASSERT_EQ(stripe.code.decode_chunks(want, in, stripe.put_room(out, wanted)), 0);
    Stripe::expect_holds(in, stripe.right);
    Stripe::expect_holds(out, stripe.right);
  });
}

TEST_F(TentacleDoor, TakesAMissingShardForUnknownAndNotForZero) {
  on_stripes([](Stripe& stripe) {
    BufferMap in(stripe.n), out(stripe.n);
    const Shards there{stripe.coding.begin(), stripe.coding.end()};
    stripe.put(in, there, stripe.right);
    for (unsigned c = 0; in.entries < stripe.k - 1; ++c)
      insert(in, stripe.data[c], stripe.buffer(stripe.right[stripe.data[c]]));
    if (in.entries >= stripe.k) return;
    // A part for these chunks is known, which must not be taken for a plan.
    BufferMap coding(stripe.n);
    stripe.put_room(coding, there);
    ASSERT_EQ(stripe.code.encode_chunks(in, coding), 0);
    ASSERT_EQ(stripe.code.decode_chunks({}, in, stripe.put_room(out, {stripe.data.back()})), -EIO);
  });
}

TEST_F(TentacleDoor, EncodesAndDecodesLists) {
  on_stripes([](Stripe& stripe) {
    if (stripe.bytes % 32 != 0) return;
    std::string object;
    for (int s : stripe.data) object += stripe.right[s];
    const Shards wanted = stripe.some(stripe.all());
    ShardIdSet want;
    fill(want, wanted);
    ListMap encoded(stripe.n), in(stripe.n), decoded(stripe.n);
    ASSERT_EQ(stripe.code.encode(want, list_of(object, stripe.bytes + 1), &encoded), 0);
    for (int s : stripe.survivors()) insert(in, s, list_of(stripe.right[s], 7));
    ASSERT_EQ(stripe.code.decode(want, in, &decoded, 0), 0);
    for (ListMap* map : {&encoded, &decoded}) {
      ASSERT_EQ(map->entries, wanted.size());
      for (int s : wanted) ASSERT_TRUE(at(*map, s).to_str() == stripe.right[s]) << "shard " << s;
    }
    Chunks chunks;
    for (std::size_t s = 0; s < stripe.n; ++s)
      if (in.slots[s]) chunks[static_cast<int>(s)] = *in.slots[s];
    bufferlist part;
    ASSERT_EQ(stripe.code.decode_concat({stripe.data[1], stripe.coding[0]}, chunks, &part), 0);
    ASSERT_TRUE(part.to_str() == stripe.right[stripe.data[1]]);
  });
}

TEST_F(TentacleDoor, ReadsAllThatIsWantedOrAnyK) {
  on_stripes([](Stripe& stripe) {
    const auto all = stripe.all();
    const Shards wanted = stripe.some(all, 1), there = stripe.some(all);
    ShardIdSet want, available, minimum, cheapest;
    fill(want, wanted);
    fill(available, there);
    ShardIdMap<SubChunks> parts(stripe.n);
    ShardIdMap<int> costs(stripe.n);
    for (int s : there) insert(costs, s, 1);
    const bool direct = std::ranges::includes(there, wanted);
    const int right = direct || there.size() >= stripe.k ? 0 : -EIO;
    ASSERT_EQ(stripe.code.minimum_to_decode(want, available, minimum, &parts), right);
    ASSERT_EQ(stripe.code.minimum_to_decode_with_cost(want, costs, &cheapest), right);
    if (right != 0) return;
    const Shards read = shards_of(minimum);
    ASSERT_TRUE(direct ? read == wanted : read.size() == stripe.k);
    ASSERT_TRUE(std::ranges::includes(there, read));
    ASSERT_EQ(parts.entries, read.size());
    for (int s : read) ASSERT_EQ(at(parts, s), (SubChunks{{0, 1}}));
    ShardIdSet everything, again;
    fill(everything, {all.begin(), all.end()});
    ASSERT_EQ(stripe.code.minimum_to_decode(everything, everything, again, nullptr), 0);
    ASSERT_EQ(again.words, everything.words);
  });
}

// The order of the table, seen as a daemon sees it.
TEST_F(TentacleDoor, HasItsFunctionsInTheirSlots) {
  Stripe stripe(shapes[3], random_, 32);
  auto* code = static_cast<::ceph::tentacle::ErasureCodeInterface*>(&stripe.code);
  void** slots = *reinterpret_cast<void***>(code);
  const auto ask = [&]<class T>(std::size_t slot, T) {
    return reinterpret_cast<T (*)(void*)>(slots[slot])(code);
  };
  EXPECT_EQ(ask(5, 0u), 11u);
  EXPECT_EQ(ask(6, 0u), 8u);
  EXPECT_EQ(ask(7, 0u), 3u);
  EXPECT_EQ(ask(14, std::size_t{}), 1u);
  EXPECT_EQ(ask(28, std::uint64_t{}), 0x57u);
  const auto* mapping = ask(25, static_cast<const std::vector<std::int8_t>*>(nullptr));
  EXPECT_EQ(*mapping, (std::vector<std::int8_t>{0, 1, 2, 4, 5, 6, 7, 9, 3, 8, 10}));
}

// A pool without the optimisations uses these.
TEST_F(TentacleDoor, AnswersOnSetsAndMapsAsTheClassicDoor) {
  for (const Shape& shape : shapes) {
    Stripe stripe(shape, random_, 4096);
    ceph::Classic classic;
    ErasureCodeProfile profile = profile_of(shape);
    ASSERT_EQ(classic.init(profile, nullptr), 0);
    const auto answers = [&](auto& code) {
      const auto all = stripe.all();
      bufferlist object = list_of(std::string(stripe.k * 4000, 'x'), 99), concat;
      Chunks encoded, decoded, whole;
      std::map<int, SubChunks> minimum;
      Shards cheapest;
      EXPECT_EQ(code.encode({all.begin(), all.end()}, object, &encoded), 0);
      whole = encoded;
      Chunks left = encoded;
      left.erase(stripe.data[1]);
      EXPECT_EQ(code.minimum_to_decode({stripe.data[1]}, Shards{all.begin() + 1, all.end()}, &minimum), 0);
      EXPECT_EQ(code.minimum_to_decode_with_cost({stripe.data[1]}, {{stripe.data[0], 1}}, &cheapest), -EIO);
      EXPECT_EQ(code.decode({stripe.data[1]}, left, &decoded, 0), 0);
      EXPECT_EQ(code.encode_chunks({}, &whole), 0);
      EXPECT_EQ(code.decode_chunks({}, left, &whole), 0);
      EXPECT_EQ(code.decode_concat(left, &concat), 0);
      std::string said = concat.to_str() + decoded[stripe.data[1]].to_str();
      for (auto* map : {&encoded, &whole})
        for (auto& [shard, list] : *map) said += list.to_str();
      for (auto& [shard, parts] : minimum) said += std::to_string(shard);
      return said;
    };
    EXPECT_TRUE(answers(static_cast<::ceph::tentacle::ErasureCodeInterface&>(stripe.code)) ==
                answers(static_cast<::ceph::ErasureCodeInterface&>(classic)));
  }
}

TEST_F(TentacleDoor, IsInitialisedAgain) {
  Stripe stripe(shapes[1], random_, 32);
  ErasureCodeProfile good = profile_of(shapes[3]), bad{{"k", "4"}, {"m", "2"}, {"mapping", "DD"}};
  ErasureCodeProfile same = stripe.code.get_profile();
  EXPECT_EQ(stripe.code.init(same, nullptr), 0);
  EXPECT_EQ(same, stripe.code.get_profile());
  EXPECT_EQ(stripe.code.init(bad, nullptr), -EINVAL);
  // Ceph 20 numbers 128 shards.
  ErasureCodeProfile too_wide{{"k", "120"}, {"m", "9"}, {"technique", "cauchy"}};
  std::ostringstream why;
  EXPECT_EQ(stripe.code.init(too_wide, &why), -EINVAL);
  EXPECT_EQ(why.str(), "k=120 and m=9: k+m must be at most 128 in this release of Ceph");
  EXPECT_EQ(stripe.code.get_chunk_count(), 6u) << "as it was";
  EXPECT_EQ(same, stripe.code.get_profile());
  EXPECT_EQ(stripe.code.init(good, nullptr), 0);
  EXPECT_EQ(stripe.code.get_chunk_count(), 11u);
  EXPECT_EQ(stripe.code.get_chunk_mapping().size(), 11u);
}

class HostileHost : public testing::Test {
 protected:
  Random random_{20};
  Stripe stripe_{shapes[1], random_, 4096};
  Tentacle& code_ = stripe_.code;
  const Shards data_{0, 1, 2, 3}, coding_{4, 5};
};

TEST_F(HostileHost, MapsOfAnotherSize) {
  BufferMap narrow(3), wide(100), none(0), out(6);
  ListMap lists(3);
  ShardIdMap<SubChunks> parts(2);
  ShardIdSet all, minimum;
  fill(all, {0, 1, 2, 3, 4, 5});
  const bufferlist object = list_of(std::string(9999, 'x'), 5);
  stripe_.put(wide, data_, stripe_.right);
  EXPECT_EQ(code_.encode_chunks(wide, stripe_.put_room(out, coding_)), 0) << "nothing is wrong but the room";
  Stripe::expect_holds(out, stripe_.right);
  EXPECT_EQ(code_.encode_chunks(none, out), 0) << "all zeros";
  EXPECT_EQ(text(at(out, 4)), std::string(4096, '\0'));
  stripe_.put(narrow, {0, 1, 2}, stripe_.right);
  EXPECT_EQ(code_.decode_chunks(all, narrow, out), -EIO);
  EXPECT_EQ(code_.encode(all, object, &lists), -EINVAL);
  EXPECT_EQ(code_.decode(all, lists, &lists, 0), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode(all, all, minimum, &parts), -EINVAL);
  EXPECT_EQ(lists.entries + parts.entries, 0u);
}

TEST_F(HostileHost, UnknownShards) {
  BufferMap in(128), out(128);
  stripe_.put(in, data_, stripe_.right);
  stripe_.put_room(out, coding_);
  insert(out, 100, stripe_.buffer(stripe_.right[0]));
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL);
  EXPECT_EQ(code_.decode_chunks({}, in, out), -EINVAL);
  code_.apply_delta(in, out);
  EXPECT_EQ(text(at(out, 4)), std::string(4096, '?'));
  ShardIdSet want, there, minimum;
  fill(want, {0, 127});
  fill(there, {0, 1, 2, 3});
  ListMap lists(128);
  EXPECT_EQ(code_.minimum_to_decode(want, there, minimum, nullptr), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode(there, want, minimum, nullptr), -EINVAL);
  EXPECT_EQ(code_.decode(want, lists, &lists, 0), -EINVAL);
  ShardIdMap<int> costs(128);
  insert(costs, 90, 1);
  EXPECT_EQ(code_.minimum_to_decode_with_cost(there, costs, &minimum), -EINVAL);
}

TEST_F(HostileHost, LengthsThatDiffer) {
  BufferMap in(6), out(6), empty(6), delta(6);
  stripe_.put(in, data_, stripe_.right);
  at(in, 3) = bufferptr(at(in, 3), 0, 4000);
  stripe_.put_room(out, coding_);
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL);
  at(in, 3) = bufferptr();
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL);
  BufferMap lost(6);
  EXPECT_EQ(code_.decode_chunks({}, in, stripe_.put_room(lost, {4})), -EINVAL);
  insert(delta, 0, bufferptr(at(in, 0), 0, 100));
  code_.apply_delta(delta, out);
  EXPECT_EQ(text(at(out, 4)), std::string(4096, '?'));
  for (int s : {0, 1, 2, 3}) insert(empty, s, bufferptr());
  BufferMap empty_coding(6);
  insert(empty_coding, 4, bufferptr());
  EXPECT_EQ(code_.encode_chunks(empty, empty_coding), 0);
  EXPECT_EQ(code_.decode_chunks({}, empty, empty_coding), 0);
  code_.apply_delta(empty, empty_coding);
}

TEST_F(HostileHost, NothingAtAll) {
  BufferMap in(6), out(6);
  ShardIdSet none, minimum;
  ListMap lists(6);
  EXPECT_EQ(code_.encode_chunks(in, out), 0);
  EXPECT_EQ(code_.decode_chunks(none, in, out), 0);
  EXPECT_EQ(code_.decode_chunks(none, in, stripe_.put_room(out, {1})), -EIO);
  code_.apply_delta(in, out);
  EXPECT_EQ(code_.minimum_to_decode(none, none, minimum, nullptr), 0);
  EXPECT_EQ(code_.decode(none, lists, &lists, 0), 0);
  EXPECT_EQ(code_.encode(none, {}, &lists), 0);
  EXPECT_EQ(code_.encode(none, {}, nullptr), -EINVAL);
  EXPECT_EQ(code_.decode(none, lists, nullptr, 0), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode_with_cost(none, ShardIdMap<int>(6), nullptr), -EINVAL);
  EXPECT_EQ(code_.encode(Shards{}, {}, nullptr), -EINVAL);
  EXPECT_EQ(code_.encode_chunks({}, nullptr), -EINVAL);
  EXPECT_EQ(code_.decode(Shards{}, {}, nullptr, 0), -EINVAL);
  EXPECT_EQ(code_.decode_chunks(Shards{}, {}, nullptr), -EINVAL);
  EXPECT_EQ(code_.decode_concat({}, nullptr), -EINVAL);
  EXPECT_EQ(code_.decode_concat({1}, {}, nullptr), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode({}, {}, nullptr), -EINVAL);
  const bufferptr some = stripe_.buffer("abc");
  bufferptr delta;
  code_.encode_delta(some, some, nullptr);
  code_.encode_delta(some, {}, &delta);
  code_.encode_delta({}, {}, &delta);
  EXPECT_EQ(delta.length(), 0u);
  code_.encode_delta(some, some, &delta);
  EXPECT_EQ(text(delta), std::string(3, '\0'));
}

TEST_F(HostileHost, ShardsWhereTheyDoNotBelong) {
  BufferMap in(6), out(6);
  stripe_.put(in, {0, 1, 2, 3, 4}, stripe_.right);
  EXPECT_EQ(code_.encode_chunks(in, stripe_.put_room(out, coding_)), 0) << "coding that came in is not read";
  Stripe::expect_holds(out, stripe_.right);
  stripe_.put_room(out, {0});
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL) << "data to be written";
}

// As in a release with other types: nothing behind the first field is where we look for it.
TEST_F(HostileHost, ContainersOfAnotherLayout) {
  BufferMap in(6), out(6);
  stripe_.put(in, data_, stripe_.right);
  stripe_.put_room(out, coding_);
  ShardIdSet all, minimum, wrong;
  wrong.end_of = nullptr;
  EXPECT_EQ(code_.minimum_to_decode(wrong, all, minimum, nullptr), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode(all, all, wrong, nullptr), -EINVAL);
  out.const_end.of = nullptr;
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL);
  EXPECT_EQ(code_.decode_chunks(all, in, out), -EINVAL);
  EXPECT_EQ(code_.decode_chunks(all, out, in), -EINVAL);
  code_.apply_delta(in, out);
  EXPECT_EQ(text(at(out, 4)), std::string(4096, '?'));
}

}  // namespace
}  // namespace ec::test
