// The stripes in device memory that kernels are measured on.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/common/random.hpp"
#include "bench/common/stats.hpp"
#include "bench/kernels/contestants.hpp"
#include "kernels/backends.hpp"
#include "tools/device/memory.hpp"

namespace ec::bench {

using tools::Memory;

struct KernelTiming {
  double seconds = 0;  ///< median of the runs
  double noise = 0;    ///< percent, as noise_percent()
};

/// Source chunks hold random bytes that nothing overwrites; target chunks are apart from them. The device's
/// context must be current. Everything throws std::runtime_error on a fault.
class DeviceBatches {
 public:
  /// `sources`, `targets`: bytes of the largest case.
  DeviceBatches(const std::shared_ptr<Device>& device, std::size_t sources, std::size_t targets)
      : timer_(device),
        sources_(kernels::Residence::device, sources),
        targets_(kernels::Residence::device, targets) {
    // Repeats a block of odd length, so that no two chunks are alike where that is checked.
    std::vector<std::uint8_t> random(std::min<std::size_t>(sources, (std::size_t{64} << 20) - 4093));
    fill_random(random, 1);
    for (std::size_t at = 0; at < sources; at += random.size())
      sources_.write(sources_.data() + at, std::span(random).first(std::min(random.size(), sources - at)));
  }

  /// Batches of `stripes` stripes each, apart in memory: as many as keep `cold_bytes` moving, so that one
  /// does not find its chunks in the cache of the device; at least one. Valid until the next call.
  std::span<const StripeBatch> lay_out(const kernels::Program& program, std::size_t chunk_bytes,
                                       std::size_t stripes, std::size_t cold_bytes) {
    const std::size_t k = program.sources(), m = program.targets();
    const std::size_t moved = (k + m) * chunk_bytes * stripes;
    const std::size_t count = std::max<std::size_t>(
        1, std::min({(cold_bytes + moved - 1) / moved, sources_.size() / (k * chunk_bytes * stripes),
                     targets_.size() / (m * chunk_bytes * stripes)}));
    chunks_.clear();
    for (std::size_t s = 0; s < count * stripes; ++s) {
      for (std::size_t i = 0; i < k; ++i) chunks_.push_back(sources_.data() + (s * k + i) * chunk_bytes);
      for (std::size_t i = 0; i < m; ++i) chunks_.push_back(targets_.data() + (s * m + i) * chunk_bytes);
    }
    table_ = std::make_unique<Memory>(kernels::Residence::device, 8 * chunks_.size());
    table_->write(table_->data(),
                  {reinterpret_cast<const std::uint8_t*>(chunks_.data()), 8 * chunks_.size()});
    batches_.clear();
    const std::size_t entries = stripes * (k + m);
    for (std::size_t b = 0; b < count; ++b)
      batches_.push_back({&program, chunk_bytes, stripes, std::span(chunks_).subspan(b * entries, entries),
                          gpu_address(table_->data()) + 8 * b * entries});
    return batches_;
  }

  /// Overwrites the targets, so that bytes that are not written show.
  void spoil(const StripeBatch& batch) {
    // The targets of a batch lie one behind the other.
    const std::size_t bytes = batch.chunk_bytes * batch.targets() * batch.stripes;
    timer_.start([&](CUstream stream, CUstream) {
      require(gpu_driver().memset_d8_async(gpu_address(batch.chunks[batch.sources()]), 0xee, bytes, stream),
              "cuMemsetD8Async");
    });
    timer_.finish();
  }

  /// Whether sampled ranges of sampled stripes are what the reference back end makes of the sources.
  bool right(const StripeBatch& batch) const {
    const std::size_t bytes = std::min<std::size_t>(batch.chunk_bytes, 2048);
    const std::size_t last = batch.chunk_bytes - bytes;
    const std::size_t samples = std::min<std::size_t>(batch.stripes, 16);
    for (std::size_t i = 0; i < samples; ++i) {
      const std::size_t stripe = samples == 1 ? 0 : i * (batch.stripes - 1) / (samples - 1);
      for (const std::size_t from :
           {std::size_t{0}, last / 3 / 16 * 16, last / 2, last * 7 / 8 / 4 * 4, last})
        if (!is_right(batch, stripe, from, bytes)) return false;
    }
    return true;
  }

  /// Runs `work` twice unmeasured, then `runs` times on the device's clock.
  KernelTiming time(unsigned runs, const std::function<void(CUstream)>& work) {
    constexpr unsigned unmeasured = 2;
    std::vector<double> seconds;
    for (unsigned i = 0; i < unmeasured + runs; ++i) {
      timer_.start([&](CUstream stream, CUstream) { work(stream); });
      const double taken = timer_.finish();
      if (i >= unmeasured) seconds.push_back(taken);
    }
    return {median(seconds), noise_percent(seconds)};
  }

  /// Best rate of copies within the device, bytes read and written a second. Chunk lengths are multiples of
  /// 1024.
  double copy_rate(unsigned runs) {
    double best = 0;
    const std::size_t most = std::min(sources_.size(), targets_.size()) / 1024 * 1024;
    for (const std::size_t wanted : {std::size_t{512} << 20, std::size_t{768} << 20}) {
      const std::size_t bytes = std::min(wanted, most);
      const auto t = time(runs, [&](CUstream stream) {
        require(gpu_driver().memcpy_dtod_async(gpu_address(targets_.data()), gpu_address(sources_.data()),
                                               bytes, stream),
                "cuMemcpyDtoDAsync");
      });
      best = std::max(best, 2.0 * static_cast<double>(bytes) / t.seconds);
    }
    return best;
  }

 private:
  std::vector<std::uint8_t> read(const std::uint8_t* from, std::size_t bytes) const {
    std::vector<std::uint8_t> host(bytes);
    const bool is_source = from >= sources_.data() && from < sources_.data() + sources_.size();
    (is_source ? sources_ : targets_).read(from, host);
    return host;
  }

  bool is_right(const StripeBatch& batch, std::size_t stripe, std::size_t from, std::size_t bytes) const {
    std::vector<std::vector<std::uint8_t>> held, wanted;
    std::vector<kernels::Source> sources;
    std::vector<kernels::Target> targets;
    for (unsigned i = 0; i < batch.width(); ++i)
      held.push_back(read(batch.chunks[stripe * batch.width() + i] + from, bytes));
    for (unsigned i = 0; i < batch.sources(); ++i) sources.push_back({held[i].data()});
    for (unsigned i = 0; i < batch.targets(); ++i) wanted.emplace_back(bytes);
    for (auto& w : wanted) targets.push_back({w.data()});
    if (kernels::find_backend("reference")->transform({batch.program, sources, targets, bytes}) !=
        kernels::Status::ok)
      throw std::runtime_error("the reference back end does not code the sample");
    return std::equal(wanted.begin(), wanted.end(), held.begin() + batch.sources());
  }

  GpuTimer timer_;
  Memory sources_;
  Memory targets_;
  std::unique_ptr<Memory> table_;
  std::vector<std::uint8_t*> chunks_;
  std::vector<StripeBatch> batches_;
};

}  // namespace ec::bench
