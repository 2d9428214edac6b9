// The stripes that back ends code: known bytes in memory of any residence, and the check of what became of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/common/memory.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::bench {

/// What a call does: a program, the chunks that it reads and those that it makes.
struct Operation {
  gf::Technique technique = gf::Technique::reed_sol_van;
  std::shared_ptr<codec::Code> code{};
  std::shared_ptr<const codec::Plan> plan{};  ///< of decode
  gf::ErasureSignature signature{};           ///< of decode: the first data chunks are lost
  const kernels::Program* program = nullptr;
  std::vector<std::uint8_t> reads{};
  kernels::Verb verb = kernels::Verb::transform;

  bool decodes() const { return plan != nullptr; }
};

/// op: encode, update (of data chunk 0), or another one, which decodes. Throws std::runtime_error if there is
/// no plan.
Operation make_operation(const std::string& op, gf::Technique technique, unsigned k, unsigned m,
                         unsigned erasures);

/// The verb as a call of a back end.
kernels::Status run(kernels::Backend& backend, const kernels::Job& job, kernels::Verb verb);

/// A stripe in ordinary memory, by which the others are judged: random data chunks, and coding chunks as the
/// reference back end and ISA-L make them. Throws std::runtime_error if those do not agree.
class KnownStripe {
 public:
  /// Operations that do not accumulate may share it.
  KnownStripe(const Operation& operation, std::size_t chunk_bytes);

  std::size_t chunk_bytes() const { return chunk_bytes_; }
  /// The chunks of the stripe; behind them, of an operation that accumulates, what it makes of targets that
  /// were spoilt.
  std::span<const std::uint8_t> chunk(unsigned index) const {
    return {bytes_.data() + index * chunk_bytes_, chunk_bytes_};
  }

 private:
  std::size_t chunk_bytes_;
  std::vector<std::uint8_t> bytes_;
};

/// Stripes in a piece of memory, for one operation. No two are alike: stripe s is the known one with every
/// chunk turned by s times some bytes. What is true of each column of bytes stays true, so the right result
/// is known without coding. Chunks lie side by side, each on a cache line, with `gap` bytes between them.
class Stripes {
 public:
  /// Bytes of memory that so many stripes need.
  static std::size_t bytes_needed(const Operation& operation, std::size_t chunk_bytes, std::size_t count,
                                  std::size_t gap = 0);

  /// Throws std::runtime_error on a fault of the device.
  Stripes(const Operation& operation, std::shared_ptr<const KnownStripe> known,
          std::shared_ptr<const Memory> memory, std::size_t count, std::size_t gap = 0);

  const Operation& operation() const { return operation_; }
  std::size_t chunk_bytes() const { return known_->chunk_bytes(); }
  kernels::Residence residence() const { return memory_->residence(); }
  std::span<const kernels::Source> sources(std::size_t stripe) const { return sources_[stripe]; }
  std::span<const kernels::Target> targets(std::size_t stripe) const { return targets_[stripe]; }
  kernels::Job job(std::size_t stripe) const {
    return {operation_.program, sources(stripe), targets(stripe), chunk_bytes()};
  }

  /// Overwrites the targets, so that bytes that are not written show. What is accumulated is added to this.
  void spoil(std::size_t stripe) const;
  /// Whether every byte of the targets is right.
  bool right(std::size_t stripe) const;

 private:
  std::size_t turned_by(std::size_t stripe) const { return stripe * 65 % chunk_bytes(); }

  Operation operation_;
  unsigned first_made_;  ///< what the first target must be, as a chunk of the known stripe
  std::shared_ptr<const KnownStripe> known_;
  std::shared_ptr<const Memory> memory_;
  std::vector<std::vector<kernels::Source>> sources_;
  std::vector<std::vector<kernels::Target>> targets_;
};

}  // namespace ec::bench
