#include "plugin/codec/cost_table.hpp"

#include <limits>

namespace ec::codec {
namespace {

// cpu: fitted by hand to 4+2, 8+3 and 10+4 in bench/results/ceph-xeon.json (x86 on one core), at objects of
// 256 KiB, 4 MiB and 64 MiB; off by up to 6, 17 and 9 % there. pinned: one call of 8+3 on an H200, reading
// and writing host memory in place, took 16.5 us at chunks of 4 KiB, 63 at 256 KiB and 220 at 1 MiB; 16 MiB
// in bench/results/codec-h200.json came to 46 GB/s of source; the link gave 51 GB/s out while it was read.
// device: bench/results/codec-h200.json at 4 KiB chunks, kernels-h200.json at 1 MiB and above.
// parallel_calls is an estimate.
constexpr CostTable defaults{
    .cpu = {{{std::uint64_t{1} << 20, {0, 0.5, 4, 4, 4.4}},
             {std::uint64_t{32} << 20, {0, 0.5, 28, 28, 2.5}},
             {std::numeric_limits<std::uint64_t>::max(), {0, 0.5, 36, 36, 1.5}}}},
    .pageable = std::nullopt,
    .pinned = {16, 0, 21.7, 20, 0},
    .device = {12, 0, 0.33, 0.33, 0},
    .parallel_calls = 4,
};

}  // namespace

const CostTable& default_costs() noexcept { return defaults; }

}  // namespace ec::codec
