// A libnvrtc.so.13 that stands in front of another and lets calls go wrong by a plan (plan.hpp), as
// driver.cpp does for the driver: of the environment, since it is opened by the process that compiles. The
// library behind may be of CUDA 12 or 13, or the emulated one.
#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/cuda/generate/nvrtc.hpp"
#include "tests/drivers/fault/injector.hpp"
#include "tests/drivers/fault/next.hpp"
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

struct Functions {
#define EC_DECLARE(name, symbol, type) std::decay_t<type> name = nullptr;
  EC_NVRTC_FUNCTIONS(EC_DECLARE)
#undef EC_DECLARE
};

template <std::size_t s>
constexpr auto member = nullptr;
#define EC_MEMBER(name, symbol, type) \
  template <>                         \
  constexpr auto member<site::name> = &Functions::name;
EC_NVRTC_FUNCTIONS(EC_MEMBER)
#undef EC_MEMBER

struct State {
  State() {
    void* library = open_next("EC_FAULTS_NEXT_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    if (library == nullptr) return;
    complete = true;
#define EC_RESOLVE(name, symbol, type)                                       \
  next.name = reinterpret_cast<std::decay_t<type>>(dlsym(library, #symbol)); \
  if (next.name == nullptr) complete = false;
    EC_NVRTC_FUNCTIONS(EC_RESOLVE)
#undef EC_RESOLVE
  }

  Functions next;
  bool complete = false;
  Injector injector{nvrtc_sites};
};

State& state() {
  static State* s = new State;
  return *s;
}

/// What the caller gets that asks for a program's bytes.
template <std::size_t s, class... A>
void spoil(A... a) {
  if constexpr (s == site::cubin) {
    std::size_t bytes = 0;
    [&](void* program, char* to) {
      if (state().next.cubin_size(program, &bytes) == 0 && bytes != 0) to[bytes / 2] ^= 1;
    }(a...);
  }
}

template <std::size_t s, class Function>
struct Site;
template <std::size_t s, class Result, class... A>
struct Site<s, Result (*)(A...)> {
  static Result call(A... a) {
    constexpr int internal_error = 11;
    State& all = state();
    if (!all.complete) return failed(internal_error);
    const Effect effect = all.injector.enter(s, Needs::nothing);
    if (effect.delay.count() != 0) std::this_thread::sleep_for(effect.delay);
    if (effect.code != 0) return failed(effect.code);
    const Result result = (all.next.*member<s>)(a...);
    if (effect.wrong) spoil<s>(a...);
    return result;
  }
  static Result failed(int code) {
    if constexpr (std::is_same_v<Result, int>)
      return code;
    else
      return "NVRTC_ERROR unknown";
  }
};

}  // namespace
}  // namespace ec::test::faults

#define EXPORTED __attribute__((visibility("default")))

// As in driver.cpp.
#define EC_EXPORT(name, symbol, type)                                                                   \
  extern "C" std::decay_t<type> ec_fault_site_##name() {                                                \
    return &ec::test::faults::Site<ec::test::faults::site::name, std::decay_t<type>>::call;             \
  }                                                                                                     \
  extern "C" EXPORTED std::remove_pointer_t<std::decay_t<type>> ec_fault_export_##name __asm__(#symbol) \
      __attribute__((ifunc("ec_fault_site_" #name)));
EC_NVRTC_FUNCTIONS(EC_EXPORT)
