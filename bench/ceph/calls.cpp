// Stripes in Ceph's buffers, calls on them, and the check of what they leave.
#include "bench/ceph/calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
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

constexpr std::size_t page = 4096;
/// The data chunk that an overwrite changes: where no coefficient but that of the first coding chunk is one.
constexpr unsigned changed = 1;

/// All k + m chunks of a stripe, one behind the other, made by the reference back end. Padding is zero.
Bytes stripe_of(const CephCase& c, std::uint64_t seed_of_changed) {
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

/// A stripe before and after an overwrite, what each chunk changes by, and what the calls of a case do with
/// them.
struct Known {
  using Places = std::map<unsigned, Chunk>;

  explicit Known(const CephCase& c) : what(c), before(stripe_of(c, 1000)), after(before), delta(before) {
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
  }
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;

  CephCase what;
  Bytes before, after, delta;
  Places reads, makes;
  Places held;  ///< by the chunks that are made, before; others may hold anything
};

/// A buffer as a network message leaves it: aligned to a page.
bufferptr make_buffer(std::size_t bytes) {
  return {ceph::buffer::create_aligned(static_cast<unsigned>(bytes), page)};
}

bufferlist list_of(Chunk bytes) {
  bufferptr buffer = make_buffer(bytes.size());
  std::memcpy(buffer.c_str(), bytes.data(), bytes.size());
  bufferlist list;
  list.append(buffer);
  return list;
}

void require_ok(int answer, const std::string& op) {
  if (answer != 0) throw std::runtime_error(fmt::format("{}: {}", op, std::strerror(-answer)));
}

/// What the functions on lists are given, and what they must answer, data chunks included.
struct ListStripes {
  explicit ListStripes(const CephCase& c) : known(c), given(c.turns) {
    for (int i = 0; i < static_cast<int>(c.k + c.m); ++i) all.insert(i);
    for (const auto& [place, bytes] : known.makes) wanted.insert(static_cast<int>(place));
    right = known.makes;
    if (c.op.starts_with("encode")) right.insert(known.reads.begin(), known.reads.end());
    const auto in = c.op == "encode"          ? Known::Places{{0, Chunk(known.before).first(c.object_bytes)}}
                    : c.op == "encode-chunks" ? right
                                              : known.reads;
    for (Chunks& chunks : given)
      for (const auto& [place, bytes] : in) chunks[static_cast<int>(place)] = list_of(bytes);
  }

  Known known;
  std::set<int> all, wanted;
  std::vector<Chunks> given;
  Known::Places right;
};

template <class Interface>
Contestant list_contestant(const std::string& name, const std::shared_ptr<Interface>& code,
                           const std::shared_ptr<ListStripes>& on) {
  const CephCase& c = on->known.what;
  const bool encodes = c.op == "encode", in_place = c.op == "encode-chunks";
  const auto call = [=, bytes = static_cast<int>(c.chunk_bytes)](std::size_t s) {
    Chunks out;
    require_ok(encodes    ? code->encode(on->all, on->given[s].at(0), &out)
               : in_place ? code->encode_chunks(on->all, &on->given[s])
                          : code->decode(on->wanted, on->given[s], &out, bytes),
               on->known.what.op);
    return out;
  };
  const auto right = [call, on, in_place](std::size_t s) {
    if (in_place)
      for (const auto& [place, bytes] : on->known.makes)
        std::memset(on->given[s].at(static_cast<int>(place)).c_str(), '?', bytes.size());
    const Chunks out = call(s);
    const Chunks& made = in_place ? on->given[s] : out;
    return std::ranges::all_of(on->right, [&](const auto& chunk) {
      const auto found = made.find(static_cast<int>(chunk.first));
      return found != made.end() && found->second.length() == chunk.second.size() &&
             found->second.contents_equal(chunk.second.data(), chunk.second.size());
    });
  };
  return {.name = name, .run = [call](std::size_t s) { call(s); }, .right = right};
}

/// What a call of the functions on single buffers gets and what it leaves: buffers at the start of a page, as
/// an OSD has them; the data of a whole encode is one buffer in the order of the object.
class ShardStripe {
 public:
  explicit ShardStripe(const Known& known)
      : known_(known), in_(known.what.k + known.what.m), out_(known.what.k + known.what.m) {
    const auto chunk = static_cast<unsigned>(known.what.chunk_bytes);
    const bool as_one = known.what.op == "encode-chunks";
    const bufferptr object = as_one ? make_buffer(known.what.k * known.what.chunk_bytes) : bufferptr();
    for (const auto& [place, bytes] : known.reads) {
      bufferptr buffer = as_one ? bufferptr(object, place * chunk, chunk) : make_buffer(chunk);
      std::memcpy(buffer.c_str(), bytes.data(), chunk);
      insert(in_, place, buffer);
    }
    for (const auto& [place, bytes] : known.makes) {
      if (place < known.what.lost()) want_.words[place / 64] |= std::uint64_t{1} << place % 64;
      insert(out_, place, make_buffer(chunk));
    }
    reset();  // no call finds new pages
  }

  void encode_chunks(Tentacle& code) { require_ok(code.encode_chunks(in_, out_), "encode_chunks"); }
  void decode_chunks(Tentacle& code) { require_ok(code.decode_chunks(want_, in_, out_), "decode_chunks"); }
  void encode_delta(Tentacle& code) { code.encode_delta(*in_.slots[0], *in_.slots[1], &*out_.slots[0]); }
  void apply_delta(Tentacle& code) { code.apply_delta(in_, out_); }

  /// As it was before the first call.
  void reset() {
    for (const auto& [place, bytes] : known_.makes) {
      std::memset(out_.slots[place]->c_str(), '?', bytes.size());
      if (const auto held = known_.held.find(place); held != known_.held.end())
        std::memcpy(out_.slots[place]->c_str(), held->second.data(), bytes.size());
    }
  }
  bool right() {
    return std::ranges::all_of(known_.makes, [&](const auto& made) {
      return std::memcmp(out_.slots[made.first]->c_str(), made.second.data(), made.second.size()) == 0;
    });
  }

 private:
  static void insert(BufferMap& map, unsigned place, const bufferptr& buffer) {
    map.slots[place].emplace(buffer);
    ++map.entries;
  }

  const Known& known_;
  BufferMap in_, out_;
  ceph::tentacle::ShardIdSet want_;
};

struct ShardStripes {
  explicit ShardStripes(const CephCase& c) : known(c) {
    for (std::size_t i = 0; i < c.turns; ++i) list.push_back(std::make_unique<ShardStripe>(known));
  }

  Known known;
  std::vector<std::unique_ptr<ShardStripe>> list;
};

Contestant shard_contestant(const std::string& name, const std::shared_ptr<Tentacle>& code,
                            const std::shared_ptr<ShardStripes>& on) {
  const std::string& op = on->known.what.op;
  const auto call = op == "encode-delta"       ? &ShardStripe::encode_delta
                    : op == "apply-delta"      ? &ShardStripe::apply_delta
                    : op.starts_with("encode") ? &ShardStripe::encode_chunks
                                               : &ShardStripe::decode_chunks;
  const auto run = [code, on, call](std::size_t s) { (on->list[s].get()->*call)(*code); };
  // Of a call of its own: a second delta takes the first one back.
  const auto right = [run, on](std::size_t s) {
    on->list[s]->reset();
    run(s);
    return on->list[s]->right();
  };
  return {.name = name, .run = run, .right = right};
}

bool is_on_lists(const std::string& op, bool tentacle) {
  const auto in_all = ops_of(false);
  return !(tentacle && op == "encode-chunks") && std::ranges::find(in_all, op) != in_all.end();
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
  std::vector<Contestant> list;
  const auto as_tentacle = [](const Coder& coder) {
    return std::reinterpret_pointer_cast<Tentacle>(coder.second);
  };
  if (is_on_lists(c.op, tentacle)) {
    const auto stripes = std::make_shared<ListStripes>(c);
    for (const Coder& coder : coders)
      list.push_back(tentacle ? list_contestant(coder.first, as_tentacle(coder), stripes)
                              : list_contestant(coder.first, coder.second, stripes));
    return list;
  }
  const auto on = std::make_shared<ShardStripes>(c);
  for (const Coder& coder : coders) list.push_back(shard_contestant(coder.first, as_tentacle(coder), on));
  return list;
}

}  // namespace ec::bench
