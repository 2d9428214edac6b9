// The stripes that `ec_bench host` codes: known bytes in memory of any residence, and the check of what
// became of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/host/host_options.hpp"
#include "kernels/backend.hpp"
#include "tools/device/buffer.hpp"

namespace ec::bench {

/// Calls body(0) .. body(count - 1) on all cores. Throws what one of them threw.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body);

/// A stripe in ordinary memory: random data chunks, and coding chunks made by the reference back end.
class Twin {
 public:
  /// encode: the program of the code.
  Twin(const kernels::Program& encode, std::size_t chunk_bytes);

  std::span<const std::uint8_t> chunk(unsigned index) const {
    return {bytes_.data() + index * chunk_bytes_, chunk_bytes_};
  }

 private:
  std::size_t chunk_bytes_;
  std::vector<std::uint8_t> bytes_;
};

/// Memory of one residence, page-aligned.
class Arena {
 public:
  /// Throws std::runtime_error if there is no such memory on this machine.
  Arena(kernels::Residence residence, std::size_t bytes);

  std::uint8_t* data() const { return pageable_ ? pageable_.get() : buffer_.data(); }
  std::size_t size() const { return size_; }
  /// Synchronous; any thread. Throw std::runtime_error on a fault of the device.
  void write(std::uint8_t* to, std::span<const std::uint8_t> from) const;
  void read(const std::uint8_t* from, std::span<std::uint8_t> to) const;

 private:
  struct Free {
    void operator()(std::uint8_t* p) const;
  };
  kernels::Residence residence_;
  std::size_t size_;
  std::unique_ptr<std::uint8_t, Free> pageable_;
  kernels::cuda::Buffer buffer_;
};

/// The stripes of a case in an arena. No two are alike: stripe s is the twin with every chunk turned by s
/// times some bytes. What is true of each column of bytes stays true, so the right result is known without
/// coding.
class HostStripes {
 public:
  /// As many stripes for each of `threads` as it takes `turns`. reads: the chunks that a call reads, in
  /// order. Copies the twin into every stripe.
  HostStripes(const HostCase& c, std::size_t threads, std::size_t turns, std::span<const std::uint8_t> reads,
              const Twin& twin, const Arena& arena);

  /// The stripe that `thread` codes at this turn. Those of the first turn are the first ones.
  std::size_t at_turn(std::size_t thread, std::size_t turn) const {
    return turn % turns_ * threads_ + thread;
  }
  std::span<const kernels::Source> sources(std::size_t stripe) const { return sources_[stripe]; }
  std::span<const kernels::Target> targets(std::size_t stripe) const { return targets_[stripe]; }

  std::size_t turns() const { return turns_; }

  /// Overwrites the targets of the first `turns` stripes of each of the first `threads` threads, so that
  /// bytes that are not written show.
  void spoil(std::size_t threads, std::size_t turns) const;
  /// Whether every byte of those targets is right.
  bool right(std::size_t threads, std::size_t turns) const;

 private:
  std::size_t turn(std::size_t stripe) const;
  void place(std::size_t stripe, unsigned chunk) const;
  bool is_right(std::size_t stripe, unsigned target) const;
  std::uint8_t* address(std::size_t stripe, unsigned chunk) const;

  HostCase case_;
  std::size_t threads_, turns_;
  const Twin& twin_;
  const Arena& arena_;
  std::vector<std::vector<kernels::Source>> sources_;
  std::vector<std::vector<kernels::Target>> targets_;
};

}  // namespace ec::bench
