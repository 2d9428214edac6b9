// Stripes in Ceph's buffers, calls on them, and the check of what they leave.
#include "bench/ceph/calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "bench/common/memory_bound.hpp"
#include "bench/common/random.hpp"
#include "ceph/tentacle.h"
#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"

namespace ec::bench {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;
using ceph::tentacle::BufferMap;
using Bytes = std::vector<std::uint8_t>;
using Chunks = std::map<int, bufferlist>;

constexpr std::size_t page = 4096;
/// The data chunk that an overwrite changes: where no coefficient but that of the first coding chunk is one.
constexpr unsigned changed = 1;

/// All k + m chunks of a stripe, made by the reference back end. Padding is zero.
std::vector<Bytes> stripe_of(const CephCase& c, std::uint64_t seed_of_changed) {
  std::vector<Bytes> chunks(c.k + c.m, Bytes(c.chunk_bytes));
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k; ++i) {
    const std::size_t begin = std::min(i * c.chunk_bytes, c.object_bytes);
    fill_random(std::span(chunks[i]).first(std::min(c.object_bytes - begin, c.chunk_bytes)),
                i == changed ? seed_of_changed : i);
    sources.push_back({chunks[i].data()});
  }
  for (unsigned i = c.k; i < c.k + c.m; ++i) targets.push_back({chunks[i].data()});
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  if (kernels::reference_backend().transform({&program, sources, targets, c.chunk_bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("the reference does not code the stripe");
  return chunks;
}

/// A buffer as a network message leaves it: aligned to a page.
bufferptr make_buffer(std::size_t bytes) {
  return {ceph::buffer::create_aligned(static_cast<unsigned>(bytes), page)};
}

std::uint8_t* bytes_of(bufferptr& buffer) { return reinterpret_cast<std::uint8_t*>(buffer.c_str()); }

bufferlist list_of(const Bytes& bytes, std::size_t length) {
  bufferptr buffer = make_buffer(length);
  std::memcpy(buffer.c_str(), bytes.data(), length);
  bufferlist list;
  list.append(buffer);
  return list;
}

void require_ok(int answer, const std::string& op) {
  if (answer != 0) throw std::runtime_error(fmt::format("{}: {}", op, std::strerror(-answer)));
}

/// What the functions on lists are given, and what they must answer.
struct ObjectStripes {
  explicit ObjectStripes(const CephCase& c) : what(c) {
    const auto known = stripe_of(c, changed);
    Bytes data;
    for (unsigned i = 0; i < c.k; ++i) data.insert(data.end(), known[i].begin(), known[i].end());
    const bool reads = c.op.ends_with("read");
    for (unsigned i = 0; i < c.k + c.m; ++i) {
      all.insert(static_cast<int>(i));
      if (i < c.lost()) wanted.insert(static_cast<int>(i));
      if (!reads && (c.lost() == 0 || i < c.lost()))
        right[static_cast<int>(i)] = list_of(known[i], c.chunk_bytes);
    }
    if (reads) right[0] = list_of(data, data.size());
    for (std::size_t s = 0; s < c.threads * c.turns; ++s) {
      objects.push_back(c.op == "encode" ? list_of(data, c.object_bytes) : bufferlist());
      Chunks& chunks = given.emplace_back();
      const unsigned count = c.op == "encode-chunks" || c.op == "read" ? c.k + c.m : c.k;
      if (c.op == "encode") continue;
      for (unsigned i = c.lost(); chunks.size() < count; ++i)
        chunks[static_cast<int>(i)] = list_of(known[i], c.chunk_bytes);
    }
  }

  CephCase what;
  std::set<int> all, wanted;
  std::vector<bufferlist> objects;
  std::vector<Chunks> given;
  Chunks right;  ///< of a read: the data as one
};

template <class Interface>
Contestant object_contestant(const std::string& name, const std::shared_ptr<Interface>& code,
                             const std::shared_ptr<ObjectStripes>& on) {
  const CephCase& c = on->what;
  std::function<Chunks(std::size_t)> call;
  if (c.op == "encode")
    call = [code, on](std::size_t s) {
      Chunks out;
      require_ok(code->encode(on->all, on->objects[s], &out), "encode");
      return out;
    };
  else if (c.op == "encode-chunks")
    call = [code, on](std::size_t s) {
      require_ok(code->encode_chunks(on->all, &on->given[s]), "encode_chunks");
      return Chunks{};
    };
  else if (c.op.starts_with("decode"))
    call = [code, on](std::size_t s) {
      Chunks out;
      require_ok(code->decode(on->wanted, on->given[s], &out, static_cast<int>(on->what.chunk_bytes)),
                 "decode");
      return out;
    };
  else
    call = [code, on](std::size_t s) {
      Chunks out;
      require_ok(code->decode_concat(on->given[s], &out[0]), "decode_concat");
      return out;
    };
  const auto right = [call, on](std::size_t s) {
    const bool in_place = on->what.op == "encode-chunks";
    if (in_place)
      for (unsigned i = on->what.k; i < on->what.k + on->what.m; ++i)
        std::memset(on->given[s].at(static_cast<int>(i)).c_str(), '?', on->what.chunk_bytes);
    const Chunks out = call(s);
    const Chunks& made = in_place ? on->given[s] : out;
    return std::ranges::all_of(on->right, [&](const auto& chunk) {
      return made.contains(chunk.first) && made.at(chunk.first).contents_equal(chunk.second);
    });
  };
  return {.name = name, .threads = c.threads, .run = [call](std::size_t s) { call(s); }, .right = right};
}

/// A stripe before and after an overwrite, and what each chunk changes by.
struct Overwrite {
  explicit Overwrite(const CephCase& c) : before(stripe_of(c, 1000)), after(before), delta(before) {
    if (!c.op.ends_with("delta") && c.op != "encode-chunks-one") return;
    after = stripe_of(c, 2000);
    for (std::size_t chunk = 0; chunk < delta.size(); ++chunk)
      for (std::size_t i = 0; i < c.chunk_bytes; ++i) delta[chunk][i] ^= after[chunk][i];
  }

  std::vector<Bytes> before, after, delta;
};

/// What a call of the functions on single buffers gets and what it leaves: buffers at the start of a page, as
/// an OSD has them; the data of a whole encode is one buffer in the order of the object.
class ShardStripe {
 public:
  ShardStripe(const CephCase& c, const Overwrite& known) : in_(c.k + c.m), out_(c.k + c.m) {
    const auto coding = [&](const std::vector<Bytes>* held, const std::vector<Bytes>& made) {
      for (unsigned i = c.k; i < c.k + c.m; ++i)
        insert(out_, i, write(held != nullptr ? &(*held)[i] : nullptr, made[i]));
    };
    if (c.op == "encode-delta") {
      old_ = read(known.before[changed]);
      new_ = read(known.after[changed]);
      delta_ = write(&known.before[changed], known.delta[changed]);
    } else if (c.op == "apply-delta") {
      insert(in_, changed, read(known.delta[changed]));
      coding(&known.before, known.after);
      for (const auto& target : targets_) sources_.push_back({target.data});
    } else if (c.op == "encode-chunks-one") {
      insert(in_, changed, read(known.delta[changed]));
      coding(nullptr, known.delta);
    } else if (c.op == "encode-chunks") {
      const bufferptr object = make_buffer(c.k * c.chunk_bytes);
      for (unsigned i = 0; i < c.k; ++i)
        insert(in_, i,
               read(known.before[i], bufferptr(object, static_cast<unsigned>(i * c.chunk_bytes),
                                               static_cast<unsigned>(c.chunk_bytes))));
      coding(nullptr, known.before);
    } else {
      const unsigned survivors = c.op.ends_with("spare") ? c.k + c.m - 1 : c.k;
      for (unsigned i = c.lost(); in_.entries < survivors; ++i) insert(in_, i, read(known.before[i]));
      for (unsigned i = 0; i < c.lost(); ++i) {
        insert(out_, i, write(nullptr, known.before[i]));
        want_.words[i / 64] |= std::uint64_t{1} << i % 64;
      }
    }
  }

  void encode_chunks(ceph::tentacle::ErasureCodeInterface& code) {
    require_ok(code.encode_chunks(in_, out_), "encode_chunks");
  }
  void decode_chunks(ceph::tentacle::ErasureCodeInterface& code) {
    require_ok(code.decode_chunks(want_, in_, out_), "decode_chunks");
  }
  void encode_delta(ceph::tentacle::ErasureCodeInterface& code) { code.encode_delta(old_, new_, &delta_); }
  void apply_delta(ceph::tentacle::ErasureCodeInterface& code) { code.apply_delta(in_, out_); }

  /// As it was before the first call.
  void reset() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      std::memset(targets_[i].data, '?', made_[i]->size());
      if (held_[i] != nullptr) std::memcpy(targets_[i].data, held_[i]->data(), held_[i]->size());
    }
  }
  bool right() const {
    for (std::size_t i = 0; i < targets_.size(); ++i)
      if (std::memcmp(targets_[i].data, made_[i]->data(), made_[i]->size()) != 0) return false;
    return true;
  }
  Sources sources() const { return sources_; }
  Targets targets() const { return targets_; }

 private:
  static void insert(BufferMap& map, unsigned shard, bufferptr buffer) {
    map.slots[shard].emplace(std::move(buffer));
    ++map.entries;
  }
  bufferptr read(const Bytes& bytes) { return read(bytes, make_buffer(bytes.size())); }
  bufferptr read(const Bytes& bytes, bufferptr buffer) {
    std::memcpy(buffer.c_str(), bytes.data(), bytes.size());
    sources_.push_back({bytes_of(buffer)});
    return buffer;
  }
  bufferptr write(const Bytes* held, const Bytes& made) {
    bufferptr buffer = make_buffer(made.size());
    targets_.push_back({bytes_of(buffer)});
    held_.push_back(held);
    made_.push_back(&made);
    return buffer;
  }

  BufferMap in_, out_;
  ceph::tentacle::ShardIdSet want_;
  bufferptr old_, new_, delta_;
  std::vector<kernels::Source> sources_;   ///< all that a call reads
  std::vector<kernels::Target> targets_;   ///< all that it writes
  std::vector<const Bytes*> held_, made_;  ///< what the targets hold before, null: anything; and after
};

struct ShardStripes {
  explicit ShardStripes(const CephCase& c) : what(c), known(c) {
    for (std::size_t i = 0; i < c.threads * c.turns; ++i)
      list.push_back(std::make_unique<ShardStripe>(c, known));
  }

  CephCase what;
  Overwrite known;
  std::vector<std::unique_ptr<ShardStripe>> list;
};

Contestant shard_contestant(const std::string& name,
                            const std::shared_ptr<ceph::tentacle::ErasureCodeInterface>& code,
                            const std::shared_ptr<ShardStripes>& on) {
  const std::string& op = on->what.op;
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
  return {.name = name, .threads = on->what.threads, .run = run, .right = right};
}

Contestant bound_contestant(const Walk& walk, const std::shared_ptr<ShardStripes>& on) {
  const auto run = [&walk, on](std::size_t s) {
    move_bytes(walk, on->list[s]->sources(), on->list[s]->targets(), on->what.chunk_bytes);
  };
  return {.name = bound_name(walk), .threads = on->what.threads, .run = run, .right = [](std::size_t) {
            return true;
          }};
}

bool is_on_lists(const std::string& op, bool tentacle) {
  const auto in_all = ops_of(false);
  return !(tentacle && op == "encode-chunks") && std::ranges::find(in_all, op) != in_all.end();
}

}  // namespace

std::vector<std::string> ops_of(bool tentacle) {
  std::vector<std::string> ops{"encode", "encode-chunks", "decode", "decode-one", "read", "degraded-read"};
  if (tentacle)
    ops.insert(ops.end(), {"encode-chunks-one", "encode-delta", "apply-delta", "decode-chunks",
                           "decode-chunks-one", "decode-chunks-spare"});
  return ops;
}

unsigned CephCase::moved_chunks() const {
  if (op == "encode-delta") return 3;
  if (op == "apply-delta") return 1 + 2 * m;
  if (op == "encode-chunks-one") return 1 + m;
  if (op.starts_with("encode") || op.ends_with("spare")) return k + m;
  return lost() == 0 ? 0 : k + lost();
}

std::vector<Contestant> ceph_contestants(const CephCase& c, const std::vector<Coder>& coders, bool tentacle) {
  std::vector<Contestant> list;
  const auto as_tentacle = [](const Coder& coder) {
    return std::reinterpret_pointer_cast<ceph::tentacle::ErasureCodeInterface>(coder.second);
  };
  if (is_on_lists(c.op, tentacle)) {
    const auto stripes = std::make_shared<ObjectStripes>(c);
    for (const Coder& coder : coders)
      list.push_back(tentacle ? object_contestant(coder.first, as_tentacle(coder), stripes)
                              : object_contestant(coder.first, coder.second, stripes));
    return list;
  }
  const auto stripes = std::make_shared<ShardStripes>(c);
  for (const Coder& coder : coders)
    list.push_back(shard_contestant(coder.first, as_tentacle(coder), stripes));
  for (const Walk& walk : walks()) list.push_back(bound_contestant(walk, stripes));
  return list;
}

}  // namespace ec::bench
