// Every call that can go wrong: the functions of the tables of the product, by their symbols.
#pragma once

#include <iterator>
#include <string_view>

#include "kernels/cuda/device/driver.hpp"

namespace ec::test::faults {

/// What every driver has, and what this one adds where the one behind it has it.
#define EC_FAULT_DRIVER_SITES(X) \
  EC_CUDA_DRIVER_FUNCTIONS(X)    \
  EC_CUDA_OPTIONAL_DRIVER_FUNCTIONS(X)

inline constexpr std::string_view driver_sites[] = {
#define EC_SITE(name, symbol, type) #symbol,
    EC_FAULT_DRIVER_SITES(EC_SITE)
#undef EC_SITE
};

}  // namespace ec::test::faults
