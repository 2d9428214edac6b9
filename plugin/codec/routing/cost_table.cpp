// The built-in costs.
#include "plugin/codec/routing/cost_table.hpp"

namespace ec::codec {
namespace {

// An H200 and a core of its host, an Intel Xeon with AVX-512 and GFNI. cpu: back end x86 in
// bench/results/host-h200.json as of commit 2cc63d5, one thread, stripes in turn, so that they come from the
// shared cache or from memory. pinned: cuda in bench/results/codec-h200.json, in place. Fitted by hand; off
// by up to 28 % of that report where a call takes more than 10 us, and low by up to a factor of 2 for another
// machine of the kind (the report of commit 080a5c0); `ectool calibrate` mends that. Only what is read counts
// for pinned; that the link writes as fast is from its copies.
constexpr CostTable defaults{
    .cpu = {{{0, 0.05, 5.7, 5.7, 3.8},
             {0, 0.05, 25.7, 25.7, 3.1},
             {0, 0.05, 20.6, 20.6, 4.7},
             {0, 0.05, 26.5, 26.5, 4.1},
             {0, 0.05, 48.7, 48.7, 2.1}}},
    .pageable = std::nullopt,
    .pinned = {13, 0, 22.5, 20, 0},
};

}  // namespace

const CostTable& default_costs() noexcept { return defaults; }

}  // namespace ec::codec
