// Seeded content: the same on every machine, so that a failure repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ec::test {

/// SplitMix64 (Steele, Lea, Flood 2014): small, and defined bit for bit unlike the standard distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// 0 .. bound - 1
  unsigned below(unsigned bound) { return static_cast<unsigned>(next() % bound); }
  std::vector<std::uint8_t> bytes(std::size_t count) {
    std::vector<std::uint8_t> content(count);
    for (std::size_t i = 0; i < count; i += 8) {
      const std::uint64_t word = next();
      for (std::size_t j = i; j < count && j < i + 8; ++j)
        content[j] = static_cast<std::uint8_t>(word >> (j - i) * 8);
    }
    return content;
  }
  std::vector<std::vector<std::uint8_t>> chunks(std::size_t count, std::size_t chunk_bytes) {
    std::vector<std::vector<std::uint8_t>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(bytes(chunk_bytes));
    return all;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ec::test
