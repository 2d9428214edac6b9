// A libcuda.so.1 that stands in front of another and lets calls go wrong by a plan (plan.hpp): the real
// driver, or the emulated one. It takes the functions of the product's table
// (kernels/cuda/device/driver.hpp), so each of its calls is a site. For tests it is steered by control.hpp,
// for whole daemons by the environment:
//
//   LD_LIBRARY_PATH=BUILD/lib/fault-driver[:BUILD/lib/emulated-driver]
//   EC_FAULTS=PLAN                   see plan.hpp. What is no plan is said on stderr, and no device comes up.
//   EC_FAULTS_LOG=FILE               a line for each call that goes wrong is appended: process, function,
//                                    number of the call, what happens to it
//   EC_FAULTS_NEXT_DRIVER=FILE       the driver behind; otherwise the next libcuda.so.1 in LD_LIBRARY_PATH,
//                                    or the system's
//   EC_FAULTS_NEXT_NVRTC=FILE        the same for the libnvrtc.so.13 of this folder (nvrtc.cpp)
#include "kernels/cuda/device/driver.hpp"

#include <dlfcn.h>

#include <chrono>
#include <string>
#include <thread>
#include <type_traits>

#include "tests/drivers/fault/control.hpp"
#include "tests/drivers/fault/injector.hpp"
#include "tests/drivers/fault/launches.hpp"
#include "tests/drivers/fault/ledger.hpp"
#include "tests/drivers/fault/next.hpp"
#include "tests/drivers/fault/sites.hpp"

namespace ec::test::faults {
namespace {

using kernels::cuda::Driver;

namespace site {
enum Site : std::size_t {
#define EC_SITE(name, symbol, type) name,
  EC_FAULT_DRIVER_SITES(EC_SITE)
#undef EC_SITE
};
}  // namespace site

template <std::size_t s>
using Tag = std::integral_constant<std::size_t, s>;

template <std::size_t s>
constexpr auto member = nullptr;
#define EC_MEMBER(name, symbol, type) \
  template <>                         \
  constexpr auto member<site::name> = &Driver::name;
EC_FAULT_DRIVER_SITES(EC_MEMBER)
#undef EC_MEMBER

constexpr Needs needs_of(std::size_t s) {
  switch (s) {
    case site::init:
    case site::driver_get_version:
    case site::get_error_name:
    case site::device_get_count:
    case site::device_get:
    case site::device_get_name:
    case site::device_get_attribute:
    case site::primary_ctx_retain:
    case site::ctx_push_current:
    case site::thread_exchange_capture_mode:
      return Needs::nothing;
    case site::primary_ctx_release:
    case site::ctx_pop_current:
      return Needs::always_done;
    default:
      return Needs::context;
  }
}

struct State {
  State() {
    void* library = open_next("EC_FAULTS_NEXT_DRIVER", {"libcuda.so.1"});
    if (library == nullptr) return;
    complete = true;
#define EC_RESOLVE(name, symbol, type)                         \
  next.name = reinterpret_cast<type>(dlsym(library, #symbol)); \
  if (next.name == nullptr) complete = false;
    EC_CUDA_DRIVER_FUNCTIONS(EC_RESOLVE)
#undef EC_RESOLVE
#define EC_LOOK_UP(name, symbol, type) next.name = reinterpret_cast<type>(dlsym(library, #symbol));
    EC_CUDA_OPTIONAL_DRIVER_FUNCTIONS(EC_LOOK_UP)
#undef EC_LOOK_UP
    launches.use(&next,
                 reinterpret_cast<PFN_cuFuncGetParamInfo_v12040>(dlsym(library, "cuFuncGetParamInfo")));
  }

  Driver next;
  bool complete = false;
  Injector injector{driver_sites};
  Launches launches;
  Ledger ledger;
  std::mutex context_mutex;
  unsigned context_users = 0;
};

State& state() {
  // Never destroyed: threads may still call while the process ends.
  static State* s = new State;
  return *s;
}

/// The context that this thread made current last.
thread_local CUcontext current_context = nullptr;

/// What is done when nothing is to happen instead; for some functions there is more to do.
template <std::size_t s, class... A>
CUresult done(Tag<s>, const Effect&, A... a) {
  const auto function = state().next.*member<s>;
  return function == nullptr ? CUDA_ERROR_NOT_SUPPORTED : function(a...);
}

CUresult done(Tag<site::init>, const Effect&, unsigned flags) {
  return state().injector.refused() ? CUDA_ERROR_INVALID_VALUE : state().next.init(flags);
}

CUresult done(Tag<site::launch_kernel>, const Effect& effect, CUfunction function, unsigned grid_x,
              unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
              unsigned shared, CUstream stream, void** parameters, void** extra) {
  Launches& launches = state().launches;
  const bool behind = launches.holds(stream);
  Launch launch{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, {}};
  if (effect.hang || effect.wrong || behind) launch.parameter = launches.parameter(function, parameters);
  if ((effect.hang || behind) && !launch.parameter.empty()) {
    using Time = Launches::Clock::time_point;
    const auto due = behind                          ? Time::min()
                     : effect.hang_time.count() == 0 ? Time::max()
                                                     : Launches::Clock::now() + effect.hang_time;
    launches.hold(stream, current_context, due,
                  [launch = std::move(launch)]() mutable { state().launches.start(launch); });
    return CUDA_SUCCESS;
  }
  const CUresult result = state().next.launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y,
                                                     block_z, shared, stream, parameters, extra);
  if (effect.wrong && result == CUDA_SUCCESS) launches.spoil(launch);
  return result;
}

CUresult done(Tag<site::stream_query>, const Effect&, CUstream stream) {
  State& s = state();
  if (s.launches.holds(stream)) return CUDA_ERROR_NOT_READY;
  const CUresult result = s.next.stream_query(stream);
  // A context that ended since this call was entered took with it what the stream held.
  const auto ended = static_cast<CUresult>(s.injector.sticky());
  return result == CUDA_SUCCESS ? ended : result;
}

/// A release that fails is one of a context that is gone all the same.
CUresult done(Tag<site::primary_ctx_release>, const Effect&, CUdevice device) {
  State& s = state();
  std::lock_guard lock(s.context_mutex);
  if (s.context_users == 1) s.launches.drop();
  const CUresult result = s.next.primary_ctx_release(device);
  if (result == CUDA_SUCCESS && --s.context_users == 0) s.ledger.context_gone();
  return result;
}

CUresult done(Tag<site::primary_ctx_retain>, const Effect&, CUcontext* context, CUdevice device) {
  State& s = state();
  std::lock_guard lock(s.context_mutex);
  const CUresult result = s.next.primary_ctx_retain(context, device);
  if (result == CUDA_SUCCESS && s.context_users++ == 0) s.injector.context_made();
  return result;
}

/// What was copied, with a bit of its first byte changed.
CUresult spoiled(const Effect& effect, CUresult result, CUdeviceptr to) {
  unsigned char byte = 0;
  const Driver& next = state().next;
  if (!effect.wrong || result != CUDA_SUCCESS || next.stream_synchronize(nullptr) != CUDA_SUCCESS ||
      next.memcpy_dtoh(&byte, to, 1) != CUDA_SUCCESS)
    return result;
  byte ^= 1;
  next.memcpy_htod(to, &byte, 1);
  return result;
}

CUresult spoiled(const Effect& effect, CUresult result, void* to) {
  if (effect.wrong && result == CUDA_SUCCESS && state().next.stream_synchronize(nullptr) == CUDA_SUCCESS)
    *static_cast<unsigned char*>(to) ^= 1;
  return result;
}

CUresult done(Tag<site::memcpy_htod>, const Effect& e, CUdeviceptr to, const void* from, std::size_t bytes) {
  return spoiled(e, state().next.memcpy_htod(to, from, bytes), to);
}
CUresult done(Tag<site::memcpy_htod_async>, const Effect& e, CUdeviceptr to, const void* from,
              std::size_t bytes, CUstream stream) {
  Launches& launches = state().launches;
  launches.copied(to, from, bytes);
  if (launches.holds(stream)) {
    const auto* first = static_cast<const std::byte*>(from);
    launches.hold(stream, current_context, Launches::Clock::time_point::min(),
                  [to, copy = std::vector(first, first + bytes)] {
                    state().next.memcpy_htod(to, copy.data(), copy.size());
                  });
    return CUDA_SUCCESS;
  }
  return spoiled(e, state().next.memcpy_htod_async(to, from, bytes, stream), to);
}
CUresult done(Tag<site::memcpy_dtoh>, const Effect& e, void* to, CUdeviceptr from, std::size_t bytes) {
  return spoiled(e, state().next.memcpy_dtoh(to, from, bytes), to);
}
CUresult done(Tag<site::memcpy_dtoh_async>, const Effect& e, void* to, CUdeviceptr from, std::size_t bytes,
              CUstream stream) {
  return spoiled(e, state().next.memcpy_dtoh_async(to, from, bytes, stream), to);
}
CUresult done(Tag<site::memcpy_dtod_async>, const Effect& e, CUdeviceptr to, CUdeviceptr from,
              std::size_t bytes, CUstream stream) {
  return spoiled(e, state().next.memcpy_dtod_async(to, from, bytes, stream), to);
}

CUresult done(Tag<site::mem_free_async>, const Effect&, CUdeviceptr address, CUstream stream) {
  Launches& launches = state().launches;
  if (!launches.holds(stream)) return state().next.mem_free_async(address, stream);
  launches.hold(stream, current_context, Launches::Clock::time_point::min(),
                [address, stream] { state().next.mem_free_async(address, stream); });
  return CUDA_SUCCESS;
}

/// What is noted of a call that succeeded.
template <std::size_t s, class... A>
void note(Tag<s>, A...) {}

using enum Ledger::Memory;
void note(Tag<site::ctx_push_current>, CUcontext context) { current_context = context; }
void note(Tag<site::module_get_function>, CUfunction* function, CUmodule, const char* name) {
  state().launches.named(*function, name);
}
void note(Tag<site::module_load_data>, CUmodule* module, const void*) { state().ledger.made(*module); }
void note(Tag<site::module_unload>, CUmodule module) { state().ledger.destroyed(module); }
void note(Tag<site::stream_create>, CUstream* stream, unsigned) { state().ledger.made(*stream); }
void note(Tag<site::stream_destroy>, CUstream stream) { state().ledger.destroyed(stream); }
void note(Tag<site::event_create>, CUevent* event, unsigned) { state().ledger.made(*event); }
void note(Tag<site::event_destroy>, CUevent event) { state().ledger.destroyed(event); }
void note(Tag<site::mem_alloc>, CUdeviceptr* address, std::size_t bytes) {
  state().ledger.allocated(device, *address, bytes);
}
void note(Tag<site::mem_alloc_async>, CUdeviceptr* address, std::size_t bytes, CUstream) {
  state().ledger.allocated(device, *address, bytes);
}
void note(Tag<site::mem_free>, CUdeviceptr address) { state().ledger.freed(address); }
void note(Tag<site::mem_free_async>, CUdeviceptr address, CUstream) { state().ledger.freed(address); }
void note(Tag<site::mem_host_alloc>, void** address, std::size_t bytes, unsigned) {
  state().ledger.allocated(pinned, reinterpret_cast<std::uintptr_t>(*address), bytes);
}
void note(Tag<site::mem_free_host>, void* address) {
  state().ledger.freed(reinterpret_cast<std::uintptr_t>(address));
}
void note(Tag<site::mem_host_register>, void* address, std::size_t bytes, unsigned) {
  state().ledger.allocated(pinned, reinterpret_cast<std::uintptr_t>(address), bytes);
}
void note(Tag<site::mem_host_unregister>, void* address) {
  state().ledger.freed(reinterpret_cast<std::uintptr_t>(address));
}

template <std::size_t s, class Function>
struct Site;
template <std::size_t s, class... A>
struct Site<s, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    State& all = state();
    if (!all.complete) return CUDA_ERROR_NO_DEVICE;
    const Effect effect = all.injector.enter(s, needs_of(s));
    // No kernel outlives its context.
    if (effect.ends_context) all.launches.drop();
    all.launches.finish(false);
    if (effect.delay.count() != 0) std::this_thread::sleep_for(effect.delay);
    const auto failure = static_cast<CUresult>(effect.code);
    if (failure != CUDA_SUCCESS && needs_of(s) != Needs::always_done) return failure;
    const CUresult result = done(Tag<s>(), effect, a...);
    if (result == CUDA_SUCCESS) note(Tag<s>(), a...);
    return failure != CUDA_SUCCESS ? failure : result;
  }
};

Rule every_launch(Rule::What what) {
  Rule rule;
  rule.site = "cuLaunchKernel";
  rule.when = Rule::When::every;
  rule.what = what;
  return rule;
}

const Control control{
    .reset =
        [] {
          state().injector.reset();
          state().launches.drop();
        },
    .plan = [](const char* text) { return state().injector.take_plan(text); },
    .fail =
        [](const char* symbol, unsigned nth, CUresult result, bool sticky) {
          Rule rule;
          rule.site = symbol;
          rule.n = nth;
          rule.code = result;
          rule.sticky = sticky;
          state().injector.add(rule);
        },
    .hang = [] { state().injector.add(every_launch(Rule::What::hang)); },
    .finish_hung =
        [] {
          state().injector.take({});
          state().launches.finish(true);
        },
    .corrupt = [] { state().injector.add(every_launch(Rule::What::wrong)); },
    .calls = [](const char* symbol) { return state().injector.calls(symbol); },
    .all_calls = [] { return state().injector.all_calls(); },
    .injected = [] { return state().injector.injected(); },
    .pinned_bytes = [] { return state().ledger.bytes(pinned); },
    .device_bytes = [] { return state().ledger.bytes(device); },
    .objects = [] { return state().ledger.objects(); },
};

}  // namespace
}  // namespace ec::test::faults

#define EXPORTED __attribute__((visibility("default")))

extern "C" EXPORTED const ec::test::faults::Control* fault_driver_control() {
  return &ec::test::faults::control;
}

// Each function of the table is exported by its symbol. Its signature is in its type alone, which a function
// cannot be defined from; the linker is told where its code is instead.
#define EC_EXPORT(name, symbol, type)                                                     \
  extern "C" type ec_fault_site_##name() {                                                \
    return &ec::test::faults::Site<ec::test::faults::site::name, type>::call;             \
  }                                                                                       \
  extern "C" EXPORTED std::remove_pointer_t<type> ec_fault_export_##name __asm__(#symbol) \
      __attribute__((ifunc("ec_fault_site_" #name)));
EC_FAULT_DRIVER_SITES(EC_EXPORT)
