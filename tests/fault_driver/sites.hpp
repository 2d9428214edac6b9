// Every call that can go wrong: the functions of the two tables of the product, by their symbols.
#pragma once

#include <iterator>
#include <string_view>

#include "kernels/cuda/driver.hpp"
#include "kernels/cuda/generate/nvrtc_functions.hpp"

namespace ec::test::faults {

inline constexpr std::string_view driver_sites[] = {
#define EC_SITE(name, symbol, type) #symbol,
    EC_CUDA_DRIVER_FUNCTIONS(EC_SITE)
#undef EC_SITE
};

inline constexpr std::string_view nvrtc_sites[] = {
#define EC_SITE(name, symbol, type) #symbol,
    EC_NVRTC_FUNCTIONS(EC_SITE)
#undef EC_SITE
};

}  // namespace ec::test::faults
