// Least squares of relative errors.
#include "tools/ectool/cost_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ec::tools {
namespace {

double beyond(const codec::Rates& start, const Sample& s) {
  const double us = s.us - start.call_us - start.stripe_us * static_cast<double>(s.work.stripes);
  if (us <= 0)
    throw std::runtime_error(fmt::format(
        "a call of {} sources and {} targets of {} bytes took {:.2f} us, and one with hardly any bytes no "
        "less; measure again on an idle machine",
        s.work.sources, s.work.targets, s.work.chunk_bytes, s.us));
  return us;
}

double moved_mb(const Sample& s) { return s.work.read_mb() + s.work.written_mb(); }

/// Of the time of every sample.
constexpr double least_share = 0.01;

}  // namespace

codec::Rates fit_memory(codec::Rates start, std::span<const Sample> samples) {
  // us = a moved + b product, each line divided by its us: the normal equations.
  double mm = 0, mp = 0, pp = 0, my = 0, py = 0;
  double least_a = std::numeric_limits<double>::infinity(), least_b = least_a;
  for (const Sample& s : samples) {
    const double us = beyond(start, s);
    const double weight = 1 / s.us;
    const double moved = weight * moved_mb(s);
    const double product = weight * s.work.product_mb();
    const double y = weight * us;
    mm += moved * moved, mp += moved * product, pp += product * product;
    my += moved * y, py += product * y;
    least_a = std::min(least_a, least_share * us / moved_mb(s));
    least_b = std::min(least_b, least_share * us / s.work.product_mb());
  }
  const double determinant = mm * pp - mp * mp;
  double a = determinant > 0 ? (my * pp - py * mp) / determinant : my / mm;
  double b = determinant > 0 ? (py * mm - my * mp) / determinant : 0;
  if (b < least_b) {
    b = least_b;
    a = (my - b * mp) / mm;
  }
  if (a < least_a) {
    a = least_a;
    b = (py - a * mp) / pp;
  }
  start.read_us_per_mb = start.written_us_per_mb = a;
  start.product_us_per_mb = b;
  return start;
}

codec::Rates fit_link(codec::Rates start, const Sample& reads, const Sample& writes) {
  start.read_us_per_mb = beyond(start, reads) / reads.work.read_mb();
  start.written_us_per_mb = beyond(start, writes) / writes.work.written_mb();
  return start;
}

}  // namespace ec::tools
