#include "bench/common/contestant.hpp"

namespace ec::bench {

std::size_t object_bytes_per_call(const Case& c) { return (c.op == "update" ? 1 : c.k) * c.chunk_bytes; }

std::size_t moved_bytes_per_call(const Case& c) {
  if (c.op == "encode") return (c.k + c.m) * c.chunk_bytes;
  if (c.op == "update") return (1 + 2 * c.m) * c.chunk_bytes;
  if (c.erasures == 0) return 0;  // a healthy read hands on what is there
  return (c.k + c.erasures) * c.chunk_bytes;
}

}  // namespace ec::bench
