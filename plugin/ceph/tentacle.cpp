// Calls of Ceph 20 on its own sets and maps of shards.
#include "plugin/ceph/tentacle.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plugin/ceph/portable.hpp"

namespace ec::ceph {
namespace {

/// For the functions that can return nothing. After an error the process ends: the host would write data
/// whose parity is stale, and no scrub of Ceph 20 looks at parity.
void answer_for(const char* function, int error) {
  if (error == 0) return;
  std::fprintf(stderr, "ec_cuda: %s has done nothing: %s\n", function, std::strerror(-error));
  std::abort();
}

template <int bytes>
using Vector [[gnu::vector_size(bytes)]] = std::uint64_t;

/// From byte i on, in words of the first type and, for a rest, of the next ones.
template <class Word, class... Shorter>
[[gnu::always_inline]] inline void add_by(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to,
                                          std::size_t bytes, std::size_t i = 0) {
  for (Word x, y; bytes - i >= sizeof x; i += sizeof x) {
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    x ^= y;
    std::memcpy(to + i, &x, sizeof x);
  }
  if constexpr (sizeof...(Shorter) != 0) add_by<Shorter...>(a, b, to, bytes, i);
}

#ifdef __x86_64__
[[gnu::target("avx512f")]] void add_avx512(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to,
                                           std::size_t bytes) {
  add_by<Vector<64>, std::uint64_t, std::uint8_t>(a, b, to, bytes);
}
[[gnu::target("avx2")]] void add_avx2(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to,
                                      std::size_t bytes) {
  add_by<Vector<32>, std::uint64_t, std::uint8_t>(a, b, to, bytes);
}
#endif

/// to = a ^ b. `to` may be a or b.
void add(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to, std::size_t bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return add_avx512(a, b, to, bytes);
  if (__builtin_cpu_supports("avx2")) return add_avx2(a, b, to, bytes);
#endif
  add_by<Vector<16>, std::uint64_t, std::uint8_t>(a, b, to, bytes);
}

}  // namespace

int Tentacle::init(ErasureCodeProfile& profile, std::ostream* ss) {
  return at_the_door([&] {
    mapping_.reserve(most_pool_shards);  // while nothing has changed yet
    if (const int error = code_.init(profile, ss, most_pool_shards)) return error;
    mapping_.clear();
    for (int shard : code_.pool().mapping) mapping_.push_back({static_cast<std::int8_t>(shard)});
    return 0;
  });
}

int Tentacle::minimum_to_decode(const ShardIdSet& want_to_read, const ShardIdSet& available,
                                ShardIdSet& minimum, ShardIdMap<SubChunks>* sub_chunks) {
  return at_the_door([&] {
    if (sub_chunks != nullptr && !is_usable(sub_chunks, code_.n())) return -EINVAL;
    if (const int error = choose_reads(want_to_read, available, &minimum)) return error;
    if (sub_chunks != nullptr) each_shard(minimum, [&](int shard) { put(*sub_chunks, shard); });
    return 0;
  });
}

int Tentacle::decode_concat(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                            bufferlist* decoded) {
  return at_the_door([&] {
    const auto wanted = chunks_of(want_to_read);
    if (!wanted) return -EINVAL;
    return concat(*wanted & gf::ChunkSet::first(code_.k()), chunks, decoded);
  });
}

bool Tentacle::divide(const BufferMap& in, BufferMap& out, DataChunks& data, Places& coding) const {
  if (!is_usable(&in, 0) || !is_usable(&out, 0)) return false;
  take(in, data, to_be_read, [&](unsigned c) { return c < code_.k(); });
  take(out, coding, to_be_written, [&](unsigned c) { return c >= code_.k(); });
  return true;
}

int Tentacle::encode_chunks(const BufferMap& in, BufferMap& out) {
  return at_the_door([&] {
    DataChunks data(code_.n());
    Places coding(code_.n());
    if (!divide(in, out, data, coding)) return -EINVAL;
    // A layer of lrc gets the coding chunks of the layer before, data here, in `out`.
    if (coding.count != out.entries) {
      take(out, data, to_be_read, [&](unsigned c) { return c < code_.k(); });
      data.count = data.there.count();
    }
    return code_.code_some(data, coding, codec::Operation::encode);
  });
}

void Tentacle::encode_delta(const bufferptr& old_data, const bufferptr& new_data, bufferptr* delta) {
  const int error = at_the_door([&] {
    const unsigned bytes = old_data.length();
    if (delta == nullptr || new_data.length() != bytes) return -EINVAL;
    if (bytes == 0) return 0;
    if (delta->length() != bytes) *delta = make_buffer(bytes);
    add(bytes_of(old_data), bytes_of(new_data), writable_bytes(*delta), bytes);
    return 0;
  });
  answer_for("encode_delta", error);
}

[[gnu::always_inline]] inline bool Tentacle::apply_one_delta(const BufferMap& in,
                                                             BufferMap& out) const noexcept {
  const unsigned k = code_.k(), m = code_.m();
  if (!is_usable(&in, k + m) || !is_usable(&out, k + m) || in.entries != 1 || out.entries != m) return false;
  // shard_of() by local copies: for the compiler, a buffer's functions may change everything else (0.7 ns).
  const int* const shards = code_.pool().mapping.empty() ? nullptr : code_.pool().mapping.data();
  const auto slot_of = [&](auto* slots, unsigned chunk) -> auto& {
    return slots[shards != nullptr ? static_cast<unsigned>(shards[chunk]) : chunk];
  };
  const auto* const given = in.slots.data();
  auto* const made = out.slots.data();
  unsigned chunk = 0;
  while (chunk < k && !slot_of(given, chunk)) ++chunk;
  if (chunk == k) return false;
  const bufferptr& delta = *slot_of(given, chunk);
  const unsigned bytes = delta.length();
  if (bytes == 0) return false;
  kernels::Target coding[most_pool_shards];
  for (unsigned r = 0; r < m; ++r) {
    auto& slot = slot_of(made, k + r);
    if (!slot || slot->length() != bytes) return false;
    coding[r] = to_be_written(*slot);
  }
  answer_for("apply_delta", code_.apply_delta(chunk, to_be_read(delta), {coding, m}, bytes));
  return true;
}

void Tentacle::apply_delta(const BufferMap& in, BufferMap& out) {
  if (!apply_one_delta(in, out)) apply_deltas(in, out);
}

// Inlined, the function would give its room to the frame of every call.
[[gnu::noinline]] void Tentacle::apply_deltas(const BufferMap& in, BufferMap& out) const {
  const int error = at_the_door([&] {
    DataChunks deltas(code_.n());
    Places coding(code_.n());
    if (!divide(in, out, deltas, coding)) return -EINVAL;
    return code_.code_some(deltas, coding, codec::Operation::update);
  });
  answer_for("apply_delta", error);
}

int Tentacle::decode_chunks(const ShardIdSet&, BufferMap& in, BufferMap& out) {
  return at_the_door([&] {
    const Sources from = sources_of(in);
    if (!is_usable(&out, 0) || !from.sound) return -EINVAL;
    Places to(code_.n());
    take(out, to, to_be_written, all_chunks);
    return code_.decode_chunks(from, to);
  });
}

}  // namespace ec::ceph
