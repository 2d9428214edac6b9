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
#include "kernels/cuda/device/driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>

#include "tests/drivers/fault/control.hpp"
#include "tests/drivers/fault/injector.hpp"
#include "tests/drivers/fault/launches.hpp"

namespace ec::test::faults {
namespace {

using kernels::cuda::Driver;

namespace site {
enum Site : std::size_t {
#define EC_SITE(name, symbol, type) name,
  EC_CUDA_DRIVER_FUNCTIONS(EC_SITE)
#undef EC_SITE
};
}  // namespace site

template <std::size_t s>
using Tag = std::integral_constant<std::size_t, s>;

/// What the driver hands out and takes back.
enum class Kind { none, pinned, device, object, taken_back };

constexpr bool is_among(std::size_t s, std::initializer_list<site::Site> sites) {
  return std::ranges::find(sites, s) != sites.end();
}

constexpr Needs needs_of(std::size_t s) {
  using namespace site;
  if (is_among(s, {primary_ctx_release, ctx_pop_current})) return Needs::always_done;
  return is_among(s,
                  {init, get_error_name, device_get_count, device_get, device_get_name, device_get_attribute,
                   primary_ctx_retain, ctx_push_current, thread_exchange_capture_mode})
             ? Needs::nothing
             : Needs::context;
}

constexpr Kind kind_of(std::size_t s) {
  using namespace site;
  if (is_among(s, {module_load_data, stream_create})) return Kind::object;
  if (is_among(s, {mem_alloc, mem_alloc_async})) return Kind::device;
  if (is_among(s, {mem_host_alloc, mem_host_register})) return Kind::pinned;
  return is_among(
             s, {module_unload, stream_destroy, mem_free, mem_free_async, mem_free_host, mem_host_unregister})
             ? Kind::taken_back
             : Kind::none;
}

/// What the driver has handed out and not got back, so that a test sees what leaks on any driver. Thread
/// safe.
class Ledger {
 public:
  void note(Kind kind, std::uintptr_t address, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (kind == Kind::taken_back)
      held_.erase(address);
    else
      held_[address] = {kind, bytes};
  }
  /// The driver has taken back all there was.
  void context_gone() {
    std::lock_guard lock(mutex_);
    held_.clear();
  }
  std::size_t sum(Kind kind) {
    std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [address, held] : held_)
      if (held.first == kind) sum += held.second;
    return sum;
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::pair<Kind, std::size_t>> held_;
};

/// The driver behind this one, by its path: by its name the linker would give us ourselves. Null, with the
/// reason on stderr, if there is none.
void* open_next() {
  namespace fs = std::filesystem;
  Dl_info self{};
  dladdr(&driver_sites, &self);
  const char* const given = std::getenv("LD_LIBRARY_PATH");
  std::istringstream directories(std::string(given == nullptr ? "" : given) +
                                 ":/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib"
                                 ":/usr/local/nvidia/lib64:/usr/local/cuda/lib64:/usr/local/cuda/compat");
  const char* const named = std::getenv("EC_FAULTS_NEXT_DRIVER");
  fs::path found = named == nullptr ? "" : named;
  std::error_code ignored;
  for (std::string directory; found.empty() && std::getline(directories, directory, ':');)
    if (const fs::path path = fs::path(directory) / "libcuda.so.1";
        fs::exists(path, ignored) && !fs::equivalent(path, self.dli_fname, ignored))
      found = path;
  void* const handle = found.empty() ? nullptr : dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    std::fprintf(stderr, "EC_FAULTS: no driver behind this one in LD_LIBRARY_PATH or where drivers are: %s\n",
                 found.empty() ? "set EC_FAULTS_NEXT_DRIVER" : dlerror());
  return handle;
}

struct State {
  State() {
    library = open_next();
    if (library == nullptr) return;
    complete = true;
#define EC_RESOLVE(name, symbol, type)                         \
  next.name = reinterpret_cast<type>(dlsym(library, #symbol)); \
  if (next.name == nullptr) complete = false;
    EC_CUDA_DRIVER_FUNCTIONS(EC_RESOLVE)
#undef EC_RESOLVE
    launches.use(&next,
                 reinterpret_cast<PFN_cuFuncGetParamInfo_v12040>(dlsym(library, "cuFuncGetParamInfo")));
  }

  void* library = nullptr;
  Driver next;
  bool complete = false;
  Injector injector;
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

/// Keeps work back behind what is kept back on the stream.
void hold_behind(CUstream stream, std::function<void()> work) {
  state().launches.hold(stream, current_context, Launches::Clock::time_point::min(), std::move(work));
}

/// What is done when nothing is to happen instead; for some functions there is more to do.
template <std::size_t s, class Next, class... A>
CUresult done(Tag<s>, const Effect&, Next next, A... a) {
  return next(a...);
}

template <class Next>
CUresult done(Tag<site::init>, const Effect&, Next next, unsigned flags) {
  return state().injector.refused() ? CUDA_ERROR_INVALID_VALUE : next(flags);
}

template <class Next>
CUresult done(Tag<site::launch_kernel>, const Effect& effect, Next next, CUfunction function, unsigned grid_x,
              unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
              unsigned shared, CUstream stream, void** parameters, void** extra) {
  Launches& launches = state().launches;
  const bool behind = launches.holds(stream);
  Launch launch{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, {}};
  const bool hangs = effect.what == Rule::What::hang, is_wrong = effect.what == Rule::What::wrong;
  if (hangs || is_wrong || behind) launch.parameter = launches.parameter(function, parameters);
  if ((hangs || behind) && !launch.parameter.empty()) {
    using Time = Launches::Clock::time_point;
    const auto due = behind                     ? Time::min()
                     : effect.time.count() == 0 ? Time::max()
                                                : Launches::Clock::now() + effect.time;
    launches.hold(stream, current_context, due,
                  [launch = std::move(launch)]() mutable { state().launches.start(launch); });
    return CUDA_SUCCESS;
  }
  const CUresult result =
      next(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
  if (is_wrong && result == CUDA_SUCCESS) launches.spoil(launch);
  return result;
}

template <class Next>
CUresult done(Tag<site::stream_query>, const Effect&, Next next, CUstream stream) {
  State& s = state();
  if (s.launches.holds(stream)) return CUDA_ERROR_NOT_READY;
  const CUresult result = next(stream);
  // A context that ended since this call was entered took with it what the stream held.
  const auto ended = static_cast<CUresult>(s.injector.sticky());
  return result == CUDA_SUCCESS ? ended : result;
}

/// A release that fails is one of a context that is gone all the same.
template <class Next>
CUresult done(Tag<site::primary_ctx_release>, const Effect&, Next next, CUdevice device) {
  State& s = state();
  std::lock_guard lock(s.context_mutex);
  if (s.context_users == 1) s.launches.drop();
  const CUresult result = next(device);
  if (result == CUDA_SUCCESS && --s.context_users == 0) s.ledger.context_gone();
  return result;
}

template <class Next>
CUresult done(Tag<site::primary_ctx_retain>, const Effect&, Next next, CUcontext* context, CUdevice device) {
  State& s = state();
  std::lock_guard lock(s.context_mutex);
  const CUresult result = next(context, device);
  if (result == CUDA_SUCCESS && s.context_users++ == 0) s.injector.context_made();
  return result;
}

template <class Next>
CUresult done(Tag<site::memcpy_dtoh_async>, const Effect& effect, Next next, void* to, CUdeviceptr from,
              std::size_t bytes, CUstream stream) {
  const CUresult result = next(to, from, bytes, stream);
  if (effect.what == Rule::What::wrong && state().next.stream_synchronize(stream) == CUDA_SUCCESS)
    *static_cast<unsigned char*>(to) ^= 1;
  return result;
}

template <class Next>
CUresult done(Tag<site::memcpy_htod_async>, const Effect&, Next next, CUdeviceptr to, const void* from,
              std::size_t bytes, CUstream stream) {
  Launches& launches = state().launches;
  launches.copied(to, from, bytes);
  if (!launches.holds(stream)) return next(to, from, bytes, stream);
  const auto* first = static_cast<const std::byte*>(from);
  hold_behind(stream, [to, bytes = std::vector(first, first + bytes)] {
    state().next.memcpy_htod(to, bytes.data(), bytes.size());
  });
  return CUDA_SUCCESS;
}

template <class Next>
CUresult done(Tag<site::mem_free_async>, const Effect&, Next next, CUdeviceptr address, CUstream stream) {
  if (!state().launches.holds(stream)) return next(address, stream);
  hold_behind(stream, [=] { next(address, stream); });
  return CUDA_SUCCESS;
}

template <class T>
std::uintptr_t number_of(T handle) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return handle;
}

/// Notes a call that succeeded: its first argument is what is locked or taken back, or where what was made
/// is; behind it are the bytes, of memory.
template <std::size_t s, class First, class... A>
void note(First first, A... rest) {
  constexpr Kind kind = kind_of(s);
  Ledger& ledger = state().ledger;
  if constexpr (kind == Kind::taken_back) ledger.note(kind, number_of(first), 0);
  if constexpr (kind == Kind::object) ledger.note(kind, number_of(*first), 1);
  if constexpr (kind == Kind::pinned || kind == Kind::device) {
    const std::size_t bytes = std::get<0>(std::tuple(rest...));
    if constexpr (s == site::mem_host_register)
      ledger.note(kind, number_of(first), bytes);
    else
      ledger.note(kind, number_of(*first), bytes);
  }
  if constexpr (s == site::ctx_push_current) current_context = first;
}

std::atomic<void (*)(bool)> watcher{nullptr};

/// A thread in a function of the driver.
class Entered {
 public:
  Entered() { tell(true); }
  ~Entered() { tell(false); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  void tell(bool enters) const {
    if (told_ != nullptr) told_(enters);
  }
  void (*const told_)(bool) = watcher.load();
};

/// A call of the function `s`, which `next` is in the driver behind.
template <std::size_t s, class Next, class... A>
CUresult call(Next Driver::*next, A... a) {
  const Entered entered;
  State& all = state();
  if (!all.complete) return CUDA_ERROR_NO_DEVICE;
  constexpr Needs needs = needs_of(s);
  const Effect effect = all.injector.enter(s, needs);
  // No kernel outlives its context.
  if (effect.ends_context) all.launches.drop();
  all.launches.finish(false);
  if (effect.what == Rule::What::slow) std::this_thread::sleep_for(effect.time);
  const auto failure = static_cast<CUresult>(effect.code);
  if (failure != CUDA_SUCCESS && needs != Needs::always_done) return failure;
  if (all.next.*next == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = done(Tag<s>(), effect, all.next.*next, a...);
  if (result == CUDA_SUCCESS) note<s>(a...);
  return failure != CUDA_SUCCESS ? failure : result;
}

const Control control{
    .reset =
        [] {
          state().injector.reset();
          state().launches.drop();
        },
    .plan = [](const char* text) { return state().injector.take_plan(text); },
    .finish_hung =
        [] {
          state().injector.forget();
          state().launches.finish(true);
        },
    .calls = [](const char* symbol) { return state().injector.calls(symbol); },
    .all_calls = [] { return state().injector.all_calls(); },
    .pinned_bytes = [] { return state().ledger.sum(Kind::pinned); },
    .device_bytes = [] { return state().ledger.sum(Kind::device); },
    .objects = [] { return state().ledger.sum(Kind::object); },
    .watch = [](void (*told)(bool)) { watcher = told; },
};

}  // namespace
}  // namespace ec::test::faults

#define EXPORTED __attribute__((visibility("default")))

extern "C" EXPORTED const ec::test::faults::Control* fault_driver_control() {
  return &ec::test::faults::control;
}

// Each function of the table is exported by its symbol. Its signature is in its type alone, which a function
// cannot be defined from; the linker is told where its code is instead.
#define EC_EXPORT(symbol, type, ...)                                                 \
  extern "C" type ec_fault_site_##symbol() {                                         \
    return [](auto... a) { return __VA_ARGS__; };                                    \
  }                                                                                  \
  extern "C" EXPORTED std::remove_pointer_t<type> ec_fault_##symbol __asm__(#symbol) \
      __attribute__((ifunc("ec_fault_site_" #symbol)));
#define EC_EXPORT_SITE(name, symbol, type) \
  EC_EXPORT(symbol, type,                  \
            ec::test::faults::call<ec::test::faults::site::name>(&ec::kernels::cuda::Driver::name, a...))
EC_CUDA_DRIVER_FUNCTIONS(EC_EXPORT_SITE)

// What ec_bench calls beside the product is passed on and never goes wrong.
EC_EXPORT(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020,
          reinterpret_cast<PFN_cuMemcpyDtoDAsync_v3020>(dlsym(ec::test::faults::state().library,
                                                              "cuMemcpyDtoDAsync_v2"))(a...))
