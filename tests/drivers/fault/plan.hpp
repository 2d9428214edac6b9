// The language of EC_FAULTS: which calls of the driver go wrong, and how.
//
//   EC_FAULTS = RULE[;RULE]..          RULE = SITE:WHEN:WHAT
//
//   SITE  a function by the symbol it is exported by (cuLaunchKernel, cuMemAlloc_v2; _v2 may be left out),
//         `launch` for cuLaunchKernel, `cuda` for every function
//   WHEN  nth=N        the Nth call, and no other
//         every=N      each Nth call
//         p=X          each call with probability X, 0 < X <= 1
//   WHAT  CUDA_ERROR_.., by number or, if it is common, by name: the call answers that and does nothing.
//         Errors that end a context (LAUNCH_FAILED, ILLEGAL_ADDRESS, ECC_UNCORRECTABLE ..) are answered from
//         then on by every call that needs one, until the primary context has been released and is made anew
//         lost=TIME    the device is gone for so long: every call answers CUDA_ERROR_DEVICE_UNAVAILABLE, and
//                      the context is gone for good
//         hang         cuLaunchKernel: accepted, never done; its stream is not ready any more
//         hang=TIME    the same; after TIME the kernel runs, late, at the next call of any function
//         slow=TIME    the call is done after TIME
//         wrong        cuLaunchKernel: one bit of the last target comes out wrong; cuMemcpyDtoHAsync: one bit
//                      of the first byte
//   TIME  a whole number of us, ms or s: 50ms
//
// A rule counts its calls from when the plan was taken. The first rule that is due decides. Example:
//   EC_FAULTS="launch:every=500:CUDA_ERROR_LAUNCH_FAILED;cuStreamQuery:every=2000:slow=50ms;launch:p=0.01:wrong"
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device/driver.hpp"

namespace ec::test::faults {

/// Every call that can go wrong: the functions of the table of the product, by their symbols.
inline constexpr std::string_view driver_sites[] = {
#define EC_SITE(name, symbol, type) #symbol,
    EC_CUDA_DRIVER_FUNCTIONS(EC_SITE)
#undef EC_SITE
};

struct Rule {
  enum class What { error, lost, hang, slow, wrong } what = What::error;

  std::string site;        ///< a symbol, or "cuda"
  std::uint64_t nth = 0;   ///< this call; 0: another of the three says which
  std::uint64_t each = 0;  ///< each so manieth call
  double probability = 0;
  std::mt19937_64 random{1};
  int code = 0;
  bool sticky = false;                ///< the error ends the context
  std::chrono::microseconds time{0};  ///< hang: 0 is for ever

  std::uint64_t seen = 0;  ///< calls that the rule has counted

  bool covers(std::string_view symbol) const;
  /// Counts a call that it covers; whether this one goes wrong.
  bool due();
};

/// The rules of `text`; or none, with a sentence in *why that names the one that is none. An empty text is a
/// plan without rules.
std::vector<Rule> parse_plan(const std::string& text, std::string* why);

}  // namespace ec::test::faults
