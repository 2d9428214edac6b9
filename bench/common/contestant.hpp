// What is measured: a case, and the contestants that code its stripes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gf/generator.hpp"

namespace ec::bench {

/// One line-up: every contestant does exactly this.
struct Case {
  std::string op;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;         ///< chunks lost; 0 where the operation loses none
  std::size_t object_bytes = 0;  ///< of one stripe, before padding
  std::size_t chunk_bytes = 0;
  unsigned threads = 1;
  bool cold = false;
  std::size_t stripes = 0;  ///< in the pool; a multiple of threads
  unsigned pieces = 1;      ///< buffers that an object comes in, where the road has such
};

/// Bytes of an object that one call works on: what object GB/s counts.
std::size_t object_bytes_per_call(const Case& c);
/// Bytes of chunks read and written by one call.
std::size_t moved_bytes_per_call(const Case& c);

class Contestant {
 public:
  virtual ~Contestant() = default;

  virtual std::string name() const = 0;
  /// Where the chunks lie: pageable, pinned, device.
  virtual std::string path() const = 0;
  /// Codes one stripe of the pool. Different threads work on different stripes.
  /// Throws std::runtime_error if the coding itself reports an error.
  virtual void run(std::size_t stripe) = 0;
  /// Codes one stripe and compares every byte of the result with that of verified_against().
  virtual bool verify(std::size_t stripe) = 0;
  virtual std::string verified_against() const = 0;
};

/// A way to reach the code: fills a pool for a case and lines up the contestants on it.
class Road {
 public:
  virtual ~Road() = default;

  /// Contestants of one case share its pool, so they see the same bytes and must not run at the same time.
  virtual std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) = 0;
  /// The contestant that ratios refer to.
  virtual std::string baseline() const = 0;
};

}  // namespace ec::bench
