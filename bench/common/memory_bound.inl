// One loop of the memory bound, for memory_bound.hpp, which includes this once for each instruction set:
// EC_MOVE is its name, EC_TARGET the set.

/// tile_bytes: of every source in turn; a multiple of 64. ahead: the same source's next tile is fetched.
/// stream: whole lines are written past the cache, where a chunk begins at a line.
template <bool ahead, bool stream>
EC_TARGET std::uint64_t EC_MOVE(std::size_t tile_bytes, Sources sources, Targets targets, std::size_t bytes) {
  Line sum{};
  for (std::size_t tile = 0; tile < bytes; tile += tile_bytes) {
    const std::size_t end = std::min(tile + tile_bytes, bytes);
    const std::size_t whole = end - (end - tile) % sizeof(Line);
    for (const auto& source : sources) {
      for (std::size_t at = tile; at < whole; at += sizeof(Line)) {
        if constexpr (ahead) __builtin_prefetch(source.data + at + tile_bytes);
        Line line;
        std::memcpy(&line, source.data + at, sizeof(Line));
        sum ^= line;
      }
      Line rest{};
      if (whole < end) std::memcpy(&rest, source.data + whole, end - whole);
      sum ^= rest;
    }
    for (const auto& target : targets) {
      std::size_t at = tile;
      if (stream && reinterpret_cast<std::uintptr_t>(target.data) % sizeof(Line) == 0)
        for (; at < whole; at += sizeof(Line)) EC_STREAM(target.data + at, sum);
      for (; at < whole; at += sizeof(Line)) std::memcpy(target.data + at, &sum, sizeof(Line));
      if (whole < end) std::memcpy(target.data + whole, &sum, end - whole);
    }
  }
  if (stream) std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint64_t all = 0;
  for (int i = 0; i < 8; ++i) all ^= sum[i];
  return all;
}
