// What a process has learned about the costs of its calls, as a block of plain numbers: Experience reads and
// writes it, and other programs see it in the StatsPage.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plugin/codec/routing/cost_table.hpp"

namespace ec::codec {

/// Who coded, and where the chunks lay.
enum class Road : unsigned char { cpu, device_pinned, device_pageable };
inline constexpr std::size_t roads = 3;

/// Calls of which a cost table gets all wrong by the same factor. By bytes (class_bounds): a core's own
/// cache, a shared one, memory. By targets (1, 2, to 4, to 8, more): arithmetic. By the other calls under way
/// that are compared as well, but for brief ones (none, to 3, more): caches, memory, copy helpers and the
/// link are shared. The bounds are by reckoning; that alone and with eight threads are different is in
/// bench/results/host-h200-slower-link.json.
struct CallKind {
  std::uint64_t moved_bytes = 0;  ///< read and written
  unsigned targets = 1;
  unsigned others = 0;
};

struct Learned {
  static constexpr std::size_t size_classes = class_bounds.size() + 1;
  static constexpr std::size_t target_classes = 5;
  static constexpr std::size_t company_classes = 3;
  static constexpr unsigned most_in_small_company = 3;

  /// Zeros: nothing was learned.
  struct OfRoad {
    double correction = 0;    ///< what calls took lately over what the table predicts, less 1
    std::uint16_t seen = 0;   ///< calls, while they are few
    std::uint16_t tried = 0;  ///< trials since it was the best, while they are few
  };
  /// Threads with calls of different kinds share no cache line.
  struct alignas(64) OfKind {
    std::array<OfRoad, roads> by_road{};
  };
  std::array<OfKind, size_classes * target_classes * company_classes> kinds{};

  static constexpr std::size_t place_of(const CallKind& kind) noexcept {
    const auto size = static_cast<std::size_t>(std::ranges::lower_bound(class_bounds, kind.moved_bytes) -
                                               class_bounds.begin());
    const std::size_t width =
        std::min<std::size_t>(std::bit_width(std::max(kind.targets, 1u) - 1), target_classes - 1);
    const std::size_t company = kind.others == 0 ? 0 : kind.others <= most_in_small_company ? 1 : 2;
    return (size * target_classes + width) * company_classes + company;
  }

  /// The largest kind at that place; numeric_limits' max where it has no bound.
  static constexpr CallKind most_at(std::size_t place) noexcept {
    constexpr unsigned unbounded = std::numeric_limits<unsigned>::max();
    const std::size_t company = place % company_classes;
    const std::size_t width = place / company_classes % target_classes;
    const std::size_t size = place / company_classes / target_classes;
    return {size < class_bounds.size() ? class_bounds[size] : std::numeric_limits<std::uint64_t>::max(),
            width + 1 < target_classes ? 1u << width : unbounded,
            company == 0   ? 0
            : company == 1 ? most_in_small_company
                           : unbounded};
  }
};

}  // namespace ec::codec
