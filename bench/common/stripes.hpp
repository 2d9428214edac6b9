// The stripes that back ends code: known bytes in memory of any residence, and the check of what became of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"
#include "plugin/codec/codec.hpp"
#include "tools/device/buffer.hpp"

namespace ec::bench {

using tools::Buffer;

/// Throws std::runtime_error where there is no such memory.
Buffer allocate(kernels::Residence residence, std::size_t bytes, std::size_t device_index = 0);

/// What a call does: a program, the chunks that it reads and those that it makes.
struct Operation {
  gf::Technique technique = gf::Technique::reed_sol_van;
  std::shared_ptr<codec::Code> code{};
  std::shared_ptr<const codec::Plan> plan{};  ///< of decode
  gf::ErasureSignature signature{};           ///< of decode
  const kernels::Program* program = nullptr;
  std::vector<std::uint8_t> reads{};

  bool decodes() const { return plan != nullptr; }
};

/// c.op: encode, or another one, which decodes: as many chunks as can are lost, lost_coding of them coding
/// chunks. Throws std::runtime_error if there is no plan.
Operation make_operation(const Case& c, unsigned lost_coding = 0);

/// Stripes in a piece of memory, for one operation. No two are alike: stripe s is a known one with every
/// chunk turned by s times some bytes. What is true of each column of bytes stays true, so the right result
/// is known without coding. The known stripe is random; the reference back end and ISA-L agree on its coding
/// chunks. Chunks lie side by side, each on a cache line, with `gap` bytes between them.
class Stripes {
 public:
  /// Bytes of memory that a stripe takes.
  static std::size_t bytes_of_one(const Operation& operation, std::size_t chunk_bytes, std::size_t gap = 0);

  /// Throws std::runtime_error if there is no such memory, on a fault of the device, and if the back ends do
  /// not agree.
  Stripes(const Operation& operation, std::size_t chunk_bytes, kernels::Residence residence,
          std::size_t count, std::size_t gap = 0);

  const Operation& operation() const { return operation_; }
  std::size_t chunk_bytes() const { return chunk_bytes_; }
  const Buffer& memory() const { return memory_; }
  kernels::Residence residence() const { return memory_.residence(); }
  std::span<const kernels::Source> sources(std::size_t stripe) const { return sources_[stripe]; }
  std::span<const kernels::Target> targets(std::size_t stripe) const { return targets_[stripe]; }
  /// The addresses of sources(stripe) and targets(stripe), without residence.
  const auto& source_addresses(std::size_t stripe) const { return source_addresses_[stripe]; }
  const auto& target_addresses(std::size_t stripe) const { return target_addresses_[stripe]; }
  kernels::Job job(std::size_t stripe) const {
    return {operation_.program, sources(stripe), targets(stripe), chunk_bytes()};
  }

  /// Overwrites the targets, so that bytes that are not written show.
  void spoil(std::size_t stripe) const;
  /// Whether every byte of the targets is right.
  bool right(std::size_t stripe) const;

 private:
  void write(std::uint8_t* to, std::span<const std::uint8_t> bytes) const;
  std::size_t turned_by(std::size_t stripe) const { return stripe * 65 % chunk_bytes_; }
  std::span<const std::uint8_t> known_chunk(unsigned index) const {
    return {known_.data() + index * chunk_bytes_, chunk_bytes_};
  }

  Operation operation_;
  std::size_t chunk_bytes_;
  std::vector<std::uint8_t> known_;
  Buffer memory_;
  std::vector<std::vector<kernels::Source>> sources_;
  std::vector<std::vector<kernels::Target>> targets_;
  std::vector<std::vector<const std::uint8_t*>> source_addresses_;
  std::vector<std::vector<std::uint8_t*>> target_addresses_;
};

/// Somebody who codes these stripes, one a call. They must outlive the contestant.
Contestant stripe_contestant(const std::string& name, unsigned threads, const Stripes& stripes,
                             std::function<kernels::Status(std::size_t)> code);

}  // namespace ec::bench
