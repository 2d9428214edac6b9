// A code of ours beside the same one of Ceph's own: every function of either, with random arguments.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "plugin/ceph/tentacle.hpp"
#include "tests/plugin/ceph/roles.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {

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

/// Ceph's isa copies a kept table as if it were of this m, beyond its end; what it copies too much is not
/// used.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool has_stock_decode = false;
#else
inline constexpr bool has_stock_decode = true;
#endif

/// Ceph 20's isa ends the process where it adds up more than 32 data chunks (ErasureCodeIsa::isa_xor).
inline bool has_stock_encode(const std::string& role, const Code& stock) {
  return host_release() < 20 || role != "isa" || stock.k() <= 32 || stock.n() - stock.k() > 1;
}

inline Chunks chunks_of(const ListMap& map) {
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
    const std::string before = object_.to_str();
    right_ = in_place(pair.stock.encode(object_));
    EXPECT_EQ(difference(pair.ours.encode(object_), right_, all_), "");
    EXPECT_TRUE(object_.to_str() == before) << "the input has changed";
    for (int s : all_) bytes_[s] = right_[s].to_str();
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
  /// Each shard in a buffer of its own.
  Chunks copy_of_all() const {
    Chunks copy;
    for (const auto& [s, bytes] : bytes_) copy[s].push_back(buffer_of(bytes));
    return copy;
  }
  /// What this data makes of the coding shards, by the stock code.
  std::map<int, std::string> coded(const std::map<int, std::string>& data) const {
    bufferlist object;
    for (unsigned c = 0; c < k_; ++c) object.append(data.at(shards_[c]));
    std::map<int, std::string> made;
    for (const auto& [s, list] : in_place(pair_.stock.encode(object))) made[s] = list.to_str();
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
    on_both(what, true, [&](auto& code) {
      if constexpr (std::is_same_v<decltype(code), ::ceph::tentacle::ErasureCodeInterface&>) check(code);
    });
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
      Chunks chunks = copy_of_all();
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
      Chunks out = copy_of_all();
      for (int s : gone) out[s].zero();
      EXPECT_EQ(code.decode_chunks(gone, there, &out), 0);
      EXPECT_EQ(difference(out, right_, all_), "");
    });
    on_both("decode_concat", has_stock_decode, [&](auto& code) {
      bufferlist out;
      EXPECT_EQ(code.decode_concat(there, &out), 0);
      std::string object;
      for (unsigned c = 0; c < k_; ++c) object += bytes_[shards_[c]];
      EXPECT_TRUE(out.to_str() == object);
    });
    for (const auto& [s, list] : there)
      EXPECT_TRUE(list.to_str() == bytes_[s]) << "chunk " << s << " changed";
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
      EXPECT_TRUE(out.to_str() == bytes_[shards_[1]]);
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
    for (int s : changed) fresh[s] = draw_.bytes(bytes_[s].size(), 1).to_str();
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

}  // namespace ec::test
