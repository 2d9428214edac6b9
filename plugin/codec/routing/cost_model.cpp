// The built-in costs, and predictions.
#include "plugin/codec/routing/cost_model.hpp"

#include <algorithm>

namespace ec::codec {
namespace {

using kernels::Residence;

// An H200 and a core of its host, an Intel Xeon with AVX-512 and GFNI. cpu: back end x86 in
// bench/results/host-h200.json as of commit 2cc63d5, one thread, stripes in turn, so that they come from the
// shared cache or from memory. pinned: cuda in bench/results/codec-h200.json, in place. Fitted by hand; off
// by up to 28 % of that report where a call takes more than 10 us, and low by up to a factor of 2 for another
// machine of the kind (the report of commit 080a5c0). Only what is read counts for pinned; that the link
// writes as fast is from its copies.
constexpr CostTable defaults{
    .cpu = {{{0, 0.05, 5.7, 5.7, 3.8},
             {0, 0.05, 25.7, 25.7, 3.1},
             {0, 0.05, 20.6, 20.6, 4.7},
             {0, 0.05, 26.5, 26.5, 4.1},
             {0, 0.05, 48.7, 48.7, 2.1}}},
    .pageable = std::nullopt,
    .pinned = {13, 0, 22.5, 20, 0},
};

double start_us(const Rates& rates, const Work& work) {
  return rates.call_us + rates.stripe_us * static_cast<double>(work.stripes);
}

double bytes_us(const Rates& rates, const Work& work, bool both_ways_at_once) {
  const double read = rates.read_us_per_mb * work.read_mb();
  const double written = rates.written_us_per_mb * work.written_mb();
  return (both_ways_at_once ? std::max(read, written) : read + written) +
         rates.product_us_per_mb * work.product_mb();
}

}  // namespace

const CostTable& default_costs() noexcept { return defaults; }

double cpu_us(const CostTable& costs, const Work& work) noexcept {
  const double moved = 1e6 * (work.read_mb() + work.written_mb());
  // Never less than a smaller class says, or a call would become cheaper by growing into the next.
  double us = 0;
  for (std::size_t i = 0; i < costs.cpu.size(); ++i) {
    us = std::max(us, start_us(costs.cpu[i], work) + bytes_us(costs.cpu[i], work, false));
    if (i == class_bounds.size() || moved <= static_cast<double>(class_bounds[i])) break;
  }
  return us;
}

std::optional<double> device_us(const CostTable& costs, const Work& work, Residence nearest_host,
                                unsigned jobs_in_hand) noexcept {
  const bool pageable = nearest_host == Residence::pageable;
  if (pageable && !costs.pageable) return std::nullopt;
  const Rates& rates = pageable ? *costs.pageable : costs.pinned;
  const double start = start_us(rates, work);
  const double bytes = bytes_us(rates, work, !pageable);
  return start + bytes + jobs_in_hand * (bytes + start / parallel_starts);
}

}  // namespace ec::codec
