// Stripes in Ceph's buffers, calls on them, and the check of what they leave.
#include "bench/ceph/calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <stdexcept>

#include "bench/common/random.hpp"
#include "ceph/tentacle.h"
#include "kernels/backends.hpp"
#include "kernels/program.hpp"

namespace ec::bench {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;
using ceph::tentacle::BufferMap;
using Bytes = std::vector<std::uint8_t>;
using Chunk = std::span<const std::uint8_t>;
using Chunks = std::map<int, bufferlist>;
using Tentacle = ceph::tentacle::ErasureCodeInterface;

/// The data chunk that an overwrite changes: where no coefficient but that of the first coding chunk is one.
constexpr unsigned changed = 1;

/// All k + m chunks of a stripe, one behind the other, made by the reference back end. Padding is zero.
Bytes stripe_of(const CephCase& c, unsigned seed_of_changed) {
  Bytes stripe((c.k + c.m) * c.chunk_bytes);
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k; ++i) {
    const std::size_t begin = std::min(i * c.chunk_bytes, c.object_bytes);
    fill_random({&stripe[begin], std::min(c.object_bytes - begin, c.chunk_bytes)},
                i == changed ? seed_of_changed : i);
    sources.push_back({&stripe[i * c.chunk_bytes], {}});
  }
  for (unsigned i = c.k; i < c.k + c.m; ++i) targets.push_back({&stripe[i * c.chunk_bytes], {}});
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  if (kernels::reference_backend().transform({&program, sources, targets, c.chunk_bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("the reference does not code the stripe");
  return stripe;
}

void require_ok(int answer, const std::string& op) {
  if (answer != 0) throw std::runtime_error(fmt::format("{}: {}", op, std::strerror(-answer)));
}

/// A buffer as a network message leaves it: aligned to a page.
bufferptr make_buffer(std::size_t bytes) {
  return {ceph::buffer::create_aligned(static_cast<unsigned>(bytes), 4096)};
}

/// What a call gets and, where it writes in place, what it leaves.
struct Stripe {
  explicit Stripe(unsigned chunks) : in(chunks), out(chunks) {}

  Chunks lists;       ///< of the functions on lists; those written in place, of any
  BufferMap in, out;  ///< of the functions on single buffers
};

/// The stripes of a case, all of the same bytes, before and after an overwrite; what each chunk changes by,
/// and what a call does with them. The data of an encode call on one object or on single buffers is one
/// buffer in the order of the object; other buffers stand alone.
struct CephStripes {
  using Places = std::map<unsigned, Chunk>;

  CephStripes(const CephCase& c, bool is_on_lists)
      : what(c), on_lists(is_on_lists), before(stripe_of(c, 1000)), after(before), delta(before) {
    if (c.op.ends_with("delta") || c.op == "encode-chunks-one") after = stripe_of(c, 2000);
    std::ranges::transform(delta, after, delta.begin(), std::bit_xor<>{});
    const auto chunk = [&](const Bytes& stripe, unsigned i) {
      return Chunk(stripe).subspan(i * c.chunk_bytes, c.chunk_bytes);
    };
    const auto chunks = [&](const Bytes& stripe, unsigned from, unsigned to) {
      Places places;
      for (unsigned i = from; i < to; ++i) places[i] = chunk(stripe, i);
      return places;
    };
    const unsigned all = c.k + c.m;
    if (c.op == "encode-delta") {
      reads = {{0, chunk(before, changed)}, {1, chunk(after, changed)}};
      makes = {{0, chunk(delta, changed)}};
    } else if (c.op == "apply-delta") {
      reads = {{changed, chunk(delta, changed)}};
      held = chunks(before, c.k, all);
      makes = chunks(after, c.k, all);
    } else if (c.op == "encode-chunks-one") {
      reads = {{changed, chunk(delta, changed)}};
      makes = chunks(delta, c.k, all);
    } else if (c.op.starts_with("encode")) {
      reads = chunks(before, 0, c.k);
      makes = chunks(before, c.k, all);
    } else {
      reads = chunks(before, c.lost(), c.lost() + c.k);
      makes = chunks(before, 0, c.lost());
    }
    answers = makes;
    if (on_lists && c.op.starts_with("encode")) answers.insert(reads.begin(), reads.end());
    for (unsigned i = 0; !on_lists && i < c.lost(); ++i) lost.words[i / 64] |= std::uint64_t{1} << i % 64;
    for (std::size_t turn = 0; turn < c.turns; ++turn) add_stripe();
  }
  CephStripes(const CephStripes&) = delete;
  CephStripes& operator=(const CephStripes&) = delete;

  bool in_place() const { return !on_lists || what.op == "encode-chunks"; }

  void add_stripe() {
    Stripe& stripe = stripes.emplace_back(what.k + what.m);
    const auto chunk = static_cast<unsigned>(what.chunk_bytes);
    const bool as_one = what.op == (on_lists ? "encode" : "encode-chunks");
    const bufferptr object = as_one ? make_buffer(std::size_t{what.k} * chunk) : bufferptr();
    for (const auto& [place, bytes] : reads) {
      bufferptr buffer = as_one ? bufferptr(object, place * chunk, chunk) : make_buffer(chunk);
      std::memcpy(buffer.c_str(), bytes.data(), chunk);
      insert(stripe.in, place, buffer);
      if (on_lists) stripe.lists[static_cast<int>(place)].append(buffer);
    }
    if (what.op == "encode") {
      stripe.lists.clear();
      stripe.lists[0].append(bufferptr(object, 0, static_cast<unsigned>(what.object_bytes)));
    }
    if (!in_place()) return;
    for (const auto& [place, bytes] : makes) {
      const bufferptr buffer = make_buffer(chunk);
      insert(stripe.out, place, buffer);
      stripe.lists[static_cast<int>(place)].append(buffer);
    }
    reset(stripe);  // no call finds new pages
  }
  static void insert(BufferMap& map, unsigned place, const bufferptr& buffer) {
    map.slots[place].emplace(buffer);
    ++map.entries;
  }

  /// As it was before the first call.
  void reset(Stripe& stripe) {
    made.clear();
    if (!in_place()) return;
    for (const auto& [place, bytes] : makes) {
      char* const at = stripe.lists.at(static_cast<int>(place)).c_str();
      std::memset(at, '?', bytes.size());
      if (const auto found = held.find(place); found != held.end())
        std::memcpy(at, found->second.data(), bytes.size());
    }
  }
  static bool hold(const Chunks& lists, const Places& expected) {
    return std::ranges::all_of(expected, [&](const auto& chunk) {
      const auto found = lists.find(static_cast<int>(chunk.first));
      return found != lists.end() && found->second.length() == chunk.second.size() &&
             found->second.contents_equal(chunk.second.data(), chunk.second.size());
    });
  }

  CephCase what;
  bool on_lists;
  Bytes before, after, delta;
  Places reads, makes;
  Places held;     ///< by the chunks that are made, before; others may hold anything
  Places answers;  ///< what must be right, data chunks included where calls answer them
  ceph::tentacle::ShardIdSet lost;
  std::deque<Stripe> stripes;
  Chunks made{};  ///< new chunks of the last call, of any stripe; no others are compared
};

template <class Interface>
Contestant list_contestant(const std::string& name, const std::shared_ptr<Interface>& code,
                           const std::shared_ptr<CephStripes>& on) {
  const bool encodes = on->what.op == "encode", in_place = on->in_place();
  std::set<int> all, lost;
  for (unsigned i = 0; i < on->what.k + on->what.m; ++i) all.insert(static_cast<int>(i));
  for (unsigned i = 0; i < on->what.lost(); ++i) lost.insert(static_cast<int>(i));
  const auto run = [=, bytes = static_cast<int>(on->what.chunk_bytes)](std::size_t s) {
    Chunks& given = on->stripes[s].lists;
    on->made.clear();
    require_ok(encodes    ? code->encode(all, given.at(0), &on->made)
               : in_place ? code->encode_chunks(all, &given)
                          : code->decode(lost, given, &on->made, bytes),
               on->what.op);
  };
  const auto spoil = [=](std::size_t s) { on->reset(on->stripes[s]); };
  const auto right = [=](std::size_t s) {
    return CephStripes::hold(in_place ? on->stripes[s].lists : on->made, on->answers);
  };
  return {.name = name, .run = run, .spoil = spoil, .right = right};
}

Contestant shard_contestant(const std::string& name, const std::shared_ptr<Tentacle>& code,
                            const std::shared_ptr<CephStripes>& on) {
  using Call = int (*)(Tentacle&, Stripe&, const ceph::tentacle::ShardIdSet&);
  static const std::map<std::string, Call> calls{
      {"encode-delta",
       [](auto& code, Stripe& s, auto&) {
         return code.encode_delta(*s.in.slots[0], *s.in.slots[1], &*s.out.slots[0]), 0;
       }},
      {"apply-delta", [](auto& code, Stripe& s, auto&) { return code.apply_delta(s.in, s.out), 0; }},
      {"encode-chunks", [](auto& code, Stripe& s, auto&) { return code.encode_chunks(s.in, s.out); }},
      {"decode-chunks",
       [](auto& code, Stripe& s, auto& lost) { return code.decode_chunks(lost, s.in, s.out); }}};
  const std::string& op = on->what.op;
  const auto call = calls.at(op.ends_with("-one") ? op.substr(0, op.size() - 4) : op);
  const auto run = [=](std::size_t s) { require_ok(call(*code, on->stripes[s], on->lost), on->what.op); };
  const auto spoil = [=](std::size_t s) { on->reset(on->stripes[s]); };
  const auto right = [=](std::size_t s) {
    const Chunks& lists = on->stripes[s].lists;
    // A second delta takes the first one back, so calls leave one of two states.
    if (op == "apply-delta") {
      if (!CephStripes::hold(lists, on->answers) && !CephStripes::hold(lists, on->held)) return false;
      spoil(s), run(s);
    }
    return CephStripes::hold(lists, on->answers);
  };
  return {.name = name, .run = run, .spoil = spoil, .right = right};
}

}  // namespace

std::vector<std::string> ops_of(bool tentacle) {
  std::vector<std::string> ops{"encode", "encode-chunks", "decode", "decode-one"};
  if (tentacle)
    ops.insert(ops.end(),
               {"encode-chunks-one", "encode-delta", "apply-delta", "decode-chunks", "decode-chunks-one"});
  return ops;
}

std::vector<Contestant> ceph_contestants(const CephCase& c, const std::vector<Coder>& coders, bool tentacle) {
  const bool on_lists = std::ranges::count(ops_of(false), c.op) > 0 && !(tentacle && c.op == "encode-chunks");
  const auto on = std::make_shared<CephStripes>(c, on_lists);
  std::vector<Contestant> list;
  for (const auto& [name, object] : coders) {
    const auto code = std::reinterpret_pointer_cast<Tentacle>(object);
    list.push_back(!on_lists  ? shard_contestant(name, code, on)
                   : tentacle ? list_contestant(name, code, on)
                              : list_contestant(name, object, on));
  }
  return list;
}

}  // namespace ec::bench
