// Predictions out of a cost table.
#include "plugin/codec/routing/cost_model.hpp"

#include <algorithm>

namespace ec::codec {
namespace {

using kernels::Residence;

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
