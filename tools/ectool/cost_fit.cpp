// Least squares of relative errors.
#include "tools/ectool/cost_fit.hpp"

#include <algorithm>

namespace ec::tools {
namespace {

double beyond(const codec::Rates& start, const Sample& s) {
  return std::max(0.0, s.us - start.call_us - start.stripe_us * static_cast<double>(s.work.stripes));
}

}  // namespace

codec::Rates fit_memory(codec::Rates start, std::span<const Sample> samples) {
  // us = a moved + b product, each line divided by its us: the normal equations.
  double mm = 0, mp = 0, pp = 0, my = 0, py = 0;
  for (const Sample& s : samples) {
    const double weight = 1 / s.us;
    const double moved = weight * (s.work.read_mb() + s.work.written_mb());
    const double product = weight * s.work.product_mb();
    const double y = weight * beyond(start, s);
    mm += moved * moved, mp += moved * product, pp += product * product;
    my += moved * y, py += product * y;
  }
  const double determinant = mm * pp - mp * mp;
  double a = determinant > 0 ? (my * pp - py * mp) / determinant : my / mm;
  double b = determinant > 0 ? (py * mm - my * mp) / determinant : 0;
  if (b < 0) a = my / mm, b = 0;
  if (a < 0) a = 0, b = py / pp;
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
