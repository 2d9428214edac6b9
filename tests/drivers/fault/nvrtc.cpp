// A libnvrtc.so.13 that stands in front of another and lets calls go wrong by a plan (plan.hpp), as
// driver.cpp does for the driver: of the environment, since it is opened by the process that compiles. The
// library behind may be of CUDA 12 or 13, or the emulated one.
#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/cuda/generate/nvrtc.hpp"
#include "tests/drivers/fault/injector.hpp"
#include "tests/drivers/fault/library.hpp"
#include "tests/drivers/fault/sites.hpp"

namespace ec::test::faults {
namespace {

namespace site {
enum Site : std::size_t {
#define EC_SITE(name, symbol, type) name,
  EC_NVRTC_FUNCTIONS(EC_SITE)
#undef EC_SITE
};
}  // namespace site

struct State {
  void* library =
      open_next("EC_FAULTS_NEXT_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, &nvrtc_sites);
  Injector injector{nvrtc_sites};
};

State& state() {
  static State* s = new State;
  return *s;
}

template <class Function>
Function find(const char* symbol) {
  return state().library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(state().library, symbol));
}

template <class Result>
Result failed(int code) {
  if constexpr (std::is_same_v<Result, int>)
    return code;
  else
    return "NVRTC_ERROR unknown";
}

/// A call of the function `s`, which is `next` in the library behind.
template <std::size_t s, class Result, class... A>
Result call(Result (*next)(A...), A... a) {
  constexpr int internal_error = 11;
  if (next == nullptr) return failed<Result>(internal_error);
  const Effect effect = state().injector.enter(s, Needs::nothing);
  if (effect.delay.count() != 0) std::this_thread::sleep_for(effect.delay);
  if (effect.code != 0) return failed<Result>(effect.code);
  return next(a...);
}

}  // namespace
}  // namespace ec::test::faults

#define EXPORTED __attribute__((visibility("default")))

// As in driver.cpp.
#define EC_EXPORT(name, symbol, type)                                                            \
  extern "C" std::decay_t<type> ec_fault_site_##name() {                                         \
    return [](auto... a) {                                                                       \
      static const auto next = ec::test::faults::find<std::decay_t<type>>(#symbol);              \
      return ec::test::faults::call<ec::test::faults::site::name>(next, a...);                   \
    };                                                                                           \
  }                                                                                              \
  extern "C" EXPORTED std::remove_pointer_t<std::decay_t<type>> ec_fault_##name __asm__(#symbol) \
      __attribute__((ifunc("ec_fault_site_" #name)));
EC_NVRTC_FUNCTIONS(EC_EXPORT)
