// The door for Ceph 20: its table, and what a host can hand in wrong. That its functions give the right bytes
// and answers: roles_test.cpp.
#include "plugin/ceph/tentacle.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

using ::ceph::ErasureCodeProfile;
using ceph::Tentacle;

ErasureCodeProfile profile_of(unsigned k, unsigned m, const std::string& mapping = "") {
  return {{"k", std::to_string(k)}, {"m", std::to_string(m)}, {"mapping", mapping}};
}

// The order of the table, seen as a daemon sees it.
TEST(TentacleDoor, HasItsFunctionsInTheirSlots) {
  Tentacle door;
  ErasureCodeProfile profile = profile_of(8, 3, "DDD_DDDD_D_");
  ASSERT_EQ(door.init(profile, nullptr), 0);
  auto* code = static_cast<::ceph::tentacle::ErasureCodeInterface*>(&door);
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

TEST(TentacleDoor, IsInitialisedAgain) {
  Tentacle code;
  ErasureCodeProfile same = profile_of(4, 2), good = profile_of(8, 3, "DDD_DDDD_D_"),
                     bad = profile_of(4, 2, "DD");
  EXPECT_EQ(code.init(same, nullptr), 0);
  EXPECT_EQ(code.init(same, nullptr), 0);
  EXPECT_EQ(same, code.get_profile());
  EXPECT_EQ(code.init(bad, nullptr), -EINVAL);
  ErasureCodeProfile widest{{"k", "120"}, {"m", "7"}, {"technique", "cauchy"}}, too_wide = widest;
  too_wide["m"] = "8";
  std::ostringstream why;
  EXPECT_EQ(Tentacle().init(widest, nullptr), 0);
  EXPECT_EQ(code.init(too_wide, &why), -EINVAL);
  EXPECT_EQ(why.str(), "k=120 and m=8: k+m must be at most 127 in a pool of Ceph");
  EXPECT_EQ(code.get_chunk_count(), 6u) << "as it was";
  EXPECT_EQ(same, code.get_profile());
  EXPECT_EQ(code.init(good, nullptr), 0);
  EXPECT_EQ(code.get_chunk_count(), 11u);
  EXPECT_EQ(code.get_chunk_mapping().size(), 11u);
}

/// Beside what tests/fuzz/shards_fuzz.cpp draws: maps of buffers of any size, with any shards, of lengths
/// that differ, and data among what is to be written.
class HostileHost : public testing::Test {
 protected:
  HostileHost() {
    ErasureCodeProfile profile = profile_of(4, 2);
    EXPECT_EQ(code_.init(profile, nullptr), 0);
  }
  static BufferMap& put(BufferMap& map, const Shards& shards) {
    for (int s : shards) insert(map, s, buffer_of(std::string(4096, '?')));
    return map;
  }

  Tentacle code_;
};

TEST_F(HostileHost, ListsWithoutRoom) {
  ListMap lists(3);
  ShardIdMap<SubChunks> parts(2);
  ShardIdSet all, minimum;
  fill(all, {0, 1, 2, 3, 4, 5});
  bufferlist object;
  object.append(std::string(9999, 'x'));
  EXPECT_EQ(code_.encode(all, object, &lists), -EINVAL);
  EXPECT_EQ(code_.decode(all, lists, &lists, 0), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode(all, all, minimum, &parts), -EINVAL);
  EXPECT_EQ(lists.entries + parts.entries, 0u);
}

TEST_F(HostileHost, UnknownShards) {
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

TEST_F(HostileHost, NothingAtAll) {
  BufferMap in(6), out(6);
  ShardIdSet none, minimum;
  ListMap lists(6);
  EXPECT_EQ(code_.encode_chunks(in, out), 0);
  EXPECT_EQ(code_.decode_chunks(none, in, out), 0);
  EXPECT_EQ(code_.decode_chunks(none, in, put(out, {1})), -EIO);
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
  const bufferptr some = buffer_of("abc");
  bufferptr delta;
  code_.encode_delta({}, {}, &delta);
  EXPECT_EQ(delta.length(), 0u);
  for (const char* before : {"", "longer"}) {
    delta = buffer_of(before);
    code_.encode_delta(some, some, &delta);
    EXPECT_EQ(text(delta), std::string(3, '\0'));
  }
}

// As in a release with other types: nothing behind the first field is where we look for it.
TEST_F(HostileHost, ContainersOfAnotherLayout) {
  BufferMap in(6), out(6);
  put(in, {0, 1, 2, 3});
  put(out, {4, 5});
  ShardIdSet all, minimum, wrong;
  wrong.end_of = nullptr;
  EXPECT_EQ(code_.minimum_to_decode(wrong, all, minimum, nullptr), -EINVAL);
  EXPECT_EQ(code_.minimum_to_decode(all, all, wrong, nullptr), -EINVAL);
  out.const_end.of = nullptr;
  EXPECT_EQ(code_.encode_chunks(in, out), -EINVAL);
  EXPECT_EQ(code_.decode_chunks(all, in, out), -EINVAL);
  EXPECT_EQ(code_.decode_chunks(all, out, in), -EINVAL);
}

// Stale parity would be found by nobody.
using HostileHostDeathTest = HostileHost;
TEST_F(HostileHostDeathTest, DeltasThatFitNothing) {
  const bufferptr some = buffer_of("abc");
  bufferptr delta;
  BufferMap in(6), out(6), wrong(6);
  put(in, {0});
  insert(out, 4, buffer_of("abc"));
  put(wrong, {4}).const_end.of = nullptr;
  EXPECT_DEATH(code_.encode_delta(some, some, nullptr), "encode_delta has done nothing: Invalid argument");
  EXPECT_DEATH(code_.encode_delta(some, {}, &delta), "encode_delta has done nothing");
  EXPECT_DEATH(code_.apply_delta(in, out), "apply_delta has done nothing");
  EXPECT_DEATH(code_.apply_delta(in, wrong), "apply_delta has done nothing");
  insert(out, 5, buffer_of("abc"));
  EXPECT_DEATH(code_.apply_delta(in, out), "apply_delta has done nothing");
}

TEST_F(HostileHost, ShardsThatNoDeltaIsFor) {
  BufferMap in(6), of_coding(6), out(6), with_data(6);
  insert(in, 0, buffer_of(std::string(4096, 'a')));
  put(of_coding, {5});
  put(out, {4, 5});
  put(with_data, {3, 4});
  const std::string before = text(at(out, 4));
  code_.apply_delta(of_coding, out);
  EXPECT_EQ(text(at(out, 4)), before);
  code_.apply_delta(in, out);
  code_.apply_delta(in, with_data);
  EXPECT_NE(text(at(out, 4)), before);
  EXPECT_EQ(text(at(with_data, 4)), text(at(out, 4)));
  EXPECT_EQ(text(at(with_data, 3)), before);
}

// As lrc hands a layer the coding chunks of the layer before.
TEST_F(HostileHost, DataAmongTheChunksToBeWritten) {
  const std::string bytes[] = {std::string(4096, 'a'), std::string(4096, 'b')};
  BufferMap in(6), out(6), moved(6), both(6);
  for (BufferMap* map : {&in, &moved})
    for (int c : {1, 2}) insert(*map, c, buffer_of(bytes[1]));
  insert(in, 0, buffer_of(bytes[0]));
  insert(moved, 0, buffer_of(bytes[1]));  // not the one in `out`
  insert(both, 0, buffer_of(bytes[0]));
  put(out, {4, 5});
  put(both, {4, 5});
  ASSERT_EQ(code_.encode_chunks(in, out), 0);
  ASSERT_EQ(code_.encode_chunks(moved, both), 0);
  for (int c : {4, 5}) EXPECT_EQ(text(at(both, c)), text(at(out, c)));
}

TEST_F(HostileHost, AChunkThatIsThereAmongTheChunksToBeWritten) {
  BufferMap in(6), out(6);
  put(in, {0, 1, 2, 3});
  put(out, {4});
  insert(out, 0, buffer_of(std::string(4096, 'x')));
  ASSERT_EQ(code_.decode_chunks({}, in, out), 0);
  EXPECT_EQ(text(at(out, 0)), text(at(in, 0)));
}

TEST_F(HostileHost, ListsWithRoomReserved) {
  bufferlist object;
  object.append(std::string(16384, 'x'));
  ShardIdSet all;
  fill(all, {0, 1, 2, 3, 4, 5});
  ListMap fresh(6), reserved(6);
  for (int c = 0; c < 6; ++c) {
    insert(reserved, c, bufferlist());
    at(reserved, c).reserve(4096);
  }
  ASSERT_EQ(code_.encode(all, object, &fresh), 0);
  ASSERT_EQ(code_.encode(all, object, &reserved), 0);
  for (int c = 0; c < 6; ++c) EXPECT_TRUE(at(reserved, c).contents_equal(at(fresh, c))) << c;
}

}  // namespace
}  // namespace ec::test
