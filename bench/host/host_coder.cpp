#include "bench/host/host_coder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "kernels/backends.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {
namespace {

codec::BackendChoice choice_of(const std::string& backend) {
  if (const auto choice = codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend)) return *choice;
  throw std::logic_error("no such back end: " + backend);
}

/// By the settings of this node, as in a daemon.
codec::Router router_for(const std::string& backend, codec::Counters& counters) {
  const auto& node = codec::node_settings();
  return {choice_of(backend), node.threshold_bytes, node.costs.table, kernels::backends(), counters};
}

}  // namespace

HostCoder::HostCoder(const HostCase& c, const std::string& backend)
    : backend_(backend),
      chunk_bytes_(c.chunk_bytes),
      counters_(std::make_unique<codec::Counters>()),
      codec_(c.technique, c.k, c.m, router_for(backend, *counters_)) {
  if (!c.decodes()) return;
  gf::ErasureSignature signature{gf::ChunkSet::first(c.k + c.m), gf::ChunkSet::first(c.targets())};
  signature.available = signature.available - signature.wanted;
  plan_ = codec_.plan(signature);
  if (!plan_) throw std::runtime_error(fmt::format("{}+{}: no decode plan for {}", c.k, c.m, c.op));
}

std::vector<std::uint8_t> HostCoder::reads() const {
  if (plan_) return plan_->sources;
  std::vector<std::uint8_t> data(codec_.k());
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  return data;
}

void HostCoder::run(const HostStripes& stripes, std::size_t stripe) const {
  const auto sources = stripes.sources(stripe);
  const auto targets = stripes.targets(stripe);
  const auto status = plan_ ? codec_.apply(*plan_, sources, targets, chunk_bytes_)
                            : codec_.encode(sources, targets, chunk_bytes_);
  if (status != kernels::Status::ok)
    throw std::runtime_error(fmt::format("{}: {}", backend_, kernels::name(status)));
}

std::vector<std::uint64_t> HostCoder::calls() const {
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < kernels::backends().size(); ++i) counts.push_back(counters_->read(i).calls);
  return counts;
}

std::vector<RanCalls> HostCoder::ran_since(const std::vector<std::uint64_t>& before) const {
  std::vector<RanCalls> ran;
  const auto after = calls();
  for (std::size_t i = 0; i < after.size(); ++i)
    if (after[i] > before[i])
      ran.push_back({std::string(kernels::backends()[i]->name()), after[i] - before[i]});
  std::ranges::stable_sort(ran, std::greater{}, &RanCalls::calls);
  return ran;
}

}  // namespace ec::bench
