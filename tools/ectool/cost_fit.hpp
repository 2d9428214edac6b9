// From measured calls to the rates of a cost table. Pure functions.
#pragma once

#include <span>

#include "plugin/codec/routing/cost_model.hpp"

namespace ec::tools {

struct Sample {
  codec::Work work;
  double us = 0;
};

/// Rates for bytes moved (read and written cost the same) and for the arithmetic: least squares of the
/// relative errors over what remains of each sample after `start`'s call_us and stripe_us. At least two
/// samples, in which products and moved bytes differ in their ratio. What cannot be told from nothing is 1 %
/// of the time, which is about as well as time is measured: no rate is 0. Throws std::runtime_error where
/// nothing remains of a sample.
codec::Rates fit_memory(codec::Rates start, std::span<const Sample> samples);

/// Rates of a link that carries both ways at once, from a call that mostly reads and one that mostly writes.
/// Throws std::runtime_error where nothing remains of one after start's call_us.
codec::Rates fit_link(codec::Rates start, const Sample& reads, const Sample& writes);

}  // namespace ec::tools
