// The chunks of a call, and what is checked about them before the first byte is written.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/region.hpp"

namespace ec::library {

/// `count` stripes of `sources_each` sources and `targets_each` targets. Names are those of the caller's
/// parameters.
struct Stripes {
  std::string_view source_name;
  std::span<const kernels::Source> sources;
  std::size_t sources_each = 0;
  std::string_view target_name;
  std::span<const kernels::Target> targets;
  std::size_t targets_each = 0;
  std::size_t bytes = 0;

  std::size_t count() const { return sources.size() / sources_each; }
  std::span<const kernels::Source> sources_of(std::size_t stripe) const {
    return sources.subspan(stripe * sources_each, sources_each);
  }
  std::span<const kernels::Target> targets_of(std::size_t stripe) const {
    return targets.subspan(stripe * targets_each, targets_each);
  }
};

/// Throws Refusal unless both arrays hold the same number of whole stripes, every residence is one, and,
/// where there are bytes, no chunk is null and no target overlaps another chunk of its stripe.
void check(const Stripes& stripes);

/// Throws Refusal if some chunk is pageable, which work on a stream cannot reach.
void check_none_is_pageable(const Stripes& stripes);

/// Throws the Refusal of a chunk `name`[i] whose residence is none.
[[noreturn]] void refuse_residence(std::string_view name, std::size_t i, int residence);

/// Whether some chunk lies in device memory.
bool any_on_device(const Stripes& stripes) noexcept;

}  // namespace ec::library
