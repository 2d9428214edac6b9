// No memory and a device that fails, at the same moment: each allocation of a call fails, alone and with all
// that follow, while the device hangs, is lost, refuses or lies. Whatever a call answers must be true for
// ever: what is done does not change, and where nothing was written nothing ever is.
//
// Usage: shortage_test CALL, one of `calls` below. Needs the fault driver in front (LD_LIBRARY_PATH), the
// emulated one behind it, or a real one (EC_FAULTS_NEXT_DRIVER). Each case is a child process, since a device
// that was given up is given up for the life of one.
#include <cuda.h>
#include <dlfcn.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "tests/common/allocator.hpp"
#include "tests/common/child.hpp"
#include "tests/drivers/fault/control.hpp"
#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

constexpr unsigned k = 4, m = 2;
const std::vector<unsigned> all{0, 1, 2, 3, 4, 5}, data{0, 1, 2, 3}, coding{4, 5}, available{5, 3, 1, 2},
    lost{4, 0};

struct Answer {
  int code = 0;  ///< an errno
  std::string_view text;
};

Answer of(Error&& error) {
  static Error kept;
  kept = std::move(error);
  return {kept.code().value(), kept.text()};
}
Answer of(int result) { return {-result, result == 0 ? "" : ec_error_text()}; }

/// A call of the library on these chunks. `run` is made before memory runs short and does nothing but the
/// call.
using Run = std::function<Answer()>;
struct Call {
  const char* name;
  kernels::Residence residence;
  std::size_t stripes, bytes;
  std::vector<unsigned> lost;  ///< the targets
  bool on_stream;
  Run (*make)(const Codec&, const ec_codec*, const Placed&, std::size_t bytes, std::size_t stripes);
};

Run encode_by_c(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes,
                std::size_t stripes) {
  return [=, from = plain<ec_source>(placed.sources(data)), to = plain<ec_target>(placed.targets(coding))] {
    return of(ec_encode(codec, stripes, from.data(), to.data(), bytes));
  };
}
Run encode(const Codec& codec, const ec_codec*, const Placed& placed, std::size_t, std::size_t) {
  return [codec, from = placed.sources(data), to = placed.targets(coding)] {
    return of(codec.encode(from, to));
  };
}
Run decode(const Codec& codec, const ec_codec*, const Placed& placed, std::size_t, std::size_t) {
  return [codec, from = placed.sources(available), to = placed.targets(lost)] {
    return of(codec.decode(available, from, lost, to));
  };
}
Run update(const Codec& codec, const ec_codec*, const Placed& placed, std::size_t, std::size_t) {
  return [codec, from = placed.sources({1}), to = placed.targets(coding)] {
    return of(codec.update(1, from, to));
  };
}
/// No memory for one that is added is none for the call, which has written the targets by then.
Run add(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes, std::size_t stripes) {
  std::vector<std::vector<ec_source>> columns;
  for (const unsigned chunk : data) columns.push_back(plain<ec_source>(placed.sources({chunk})));
  return [=, to = plain<ec_target>(placed.targets(coding))] {
    ec_accumulator* state = nullptr;
    int answer = ec_begin(codec, stripes, data.data(), k, coding.data(), m, to.data(), bytes, &state);
    for (unsigned c = 0; c < k && answer == 0; ++c) answer = ec_add(state, c, columns[c].data());
    const Answer failed = of(answer);
    if (const int ended = ec_end(state); answer == 0) return of(ended);
    return failed;
  };
}
/// Whether the chunks, which agree, are said to.
Run verify(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes,
           std::size_t stripes) {
  return [=, from = plain<ec_source>(placed.sources(all))] {
    ec_verdict verdict{};
    const int answer = ec_verify(codec, stripes, all.data(), k + m, from.data(), bytes, &verdict);
    return answer == 0 && verdict.agree == 0 ? Answer{EBADMSG, "they agree"} : of(answer);
  };
}
Run verify_async(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes,
                 std::size_t stripes) {
  const auto word =
      std::make_shared<GuardedChunk>(*arena_of(kernels::Residence::device), oracle::Bytes(8), 0);
  return [=, from = plain<ec_source>(placed.sources(all))] {
    return of(ec_verify_async(codec, stripes, all.data(), k + m, from.data(), bytes,
                              reinterpret_cast<std::uint64_t*>(word->data()), nullptr));
  };
}
Run encode_async_by_c(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes,
                      std::size_t stripes) {
  return [=, from = plain<ec_source>(placed.sources(data)), to = plain<ec_target>(placed.targets(coding))] {
    return of(ec_encode_async(codec, stripes, from.data(), to.data(), bytes, nullptr));
  };
}
Run decode_async(const Codec& codec, const ec_codec*, const Placed& placed, std::size_t, std::size_t) {
  return [codec, from = placed.sources(available), to = placed.targets(lost)] {
    return of(codec.decode_async(available, from, lost, to, nullptr));
  };
}
Run decode_async_by_c(const Codec&, const ec_codec* codec, const Placed& placed, std::size_t bytes,
                      std::size_t stripes) {
  const auto from = plain<ec_source>(placed.sources(available));
  return [=, to = plain<ec_target>(placed.targets(lost))] {
    return of(ec_decode_async(codec, stripes, available.data(), available.size(), from.data(), lost.data(),
                              lost.size(), to.data(), bytes, nullptr));
  };
}

using enum kernels::Residence;
// A chunk of 4096 + 48 bytes is one for the fast kernels, and a rest for the tile kernels.
const Call calls[] = {
    {"encode_device", device, 1, 4144, coding, false, encode},
    {"encode_pinned", pinned, 1, 4144, coding, false, encode_by_c},
    {"encode_stripes", pinned, 3, 4144, coding, false, encode_by_c},
    {"encode_slices", pageable, 1, 20'000, coding, false, encode_by_c},
    {"decode_stripes", device, 3, 4144, lost, false, decode},
    {"update_device", device, 2, 4144, coding, false, update},
    {"update_pinned", pinned, 1, 4144, coding, false, update},
    {"add_device", device, 2, 4144, coding, false, add},
    {"verify_device", device, 2, 4144, {}, false, verify},
    {"verify_async", device, 2, 4144, {}, true, verify_async},
    {"encode_async", device, 3, 4144, coding, true, encode_async_by_c},
    {"decode_async", pinned, 3, 4144, lost, true, decode_async},
    {"decode_async_by_c", pinned, 3, 4144, lost, true, decode_async_by_c},
};

struct Fault {
  const char* plan;
  bool validated = false;
  bool has(std::string_view what) const {
    return std::string_view(plan).find(what) != std::string_view::npos;
  }
};
constexpr Fault device_faults[] = {
    {""},
    {"", true},
    {"launch:nth=1:hang"},
    {"launch:nth=2:hang"},
    {"launch:nth=3:hang", true},
    {"launch:every=1:hang;cuStreamQuery:every=1:3"},
    {"launch:nth=2:CUDA_ERROR_LAUNCH_FAILED"},
    {"launch:nth=2:1"},
    {"cuStreamQuery:nth=1:CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"launch:every=1:hang;cuStreamQuery:nth=2:lost=10s"},
    {"cuStreamQuery:nth=2:lost=10s", true},
    {"launch:every=1:wrong", true},
};

/// Waits for the default stream, on which the asynchronous calls are. A real device is at work meanwhile.
bool await_default_stream() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto find = [&]<class F>(F** function, const char* name) {
    return (*function = reinterpret_cast<F*>(dlsym(driver, name))) != nullptr;
  };
  decltype(cuDevicePrimaryCtxRetain)* retain = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  decltype(cuStreamSynchronize)* wait = nullptr;
  CUcontext context = nullptr;
  return find(&retain, "cuDevicePrimaryCtxRetain") && find(&push, "cuCtxPushCurrent_v2") &&
         find(&wait, "cuStreamSynchronize") && retain(&context, 0) == CUDA_SUCCESS &&
         push(context) == CUDA_SUCCESS && wait(nullptr) == CUDA_SUCCESS;
}

/// What a child ends with, beside 0.
constexpr int violation = 1, cannot_run = 2, enough_memory = 77, of_answer = 100;

int complain(const Call& call, const Fault& fault, unsigned nth, bool all, const Answer& answer,
             const char* what) {
  std::fprintf(stderr, "%s, \"%s\"%s, allocation %u%s: errno %d (%.*s): %s\n", call.name, fault.plan,
               fault.validated ? " validated" : "", nth, all ? " and all after it" : "", answer.code,
               static_cast<int>(answer.text.size()), answer.text.data(), what);
  return violation;
}

/// nth: 0 for enough memory; then of_answer plus the errno is the end.
int try_one(const Call& call, const Fault& fault, unsigned nth, bool all) {
  setenv("EC_CUDA_VALIDATE", fault.validated ? "always" : "off", 1);
  const faults::Control* const driver = faults::control_of();
  Arena* const arena = arena_of(call.residence);
  if (driver == nullptr || arena == nullptr) return cannot_run;
  StripeSet stripes("cauchy", k, m, call.stripes, call.bytes, 7);
  const bool updates = call.make == update;
  if (updates)
    stripes.expect_cleared(1);
  else
    stripes.scramble(call.lost);
  const Placed warm(stripes, *arena), placed(stripes, *arena);
  const auto before = placed.content();
  const Codec codec = made(k, m, Technique::cauchy);
  ec_codec* by_c = nullptr;
  if (ec_codec_create(k, m, EC_CAUCHY, &by_c) != 0) return cannot_run;
  // The same call before: the device comes up by it, and host memory does not wait for that.
  const Run before_it = call.make(codec, by_c, warm, call.bytes, call.stripes);
  for (const unsigned launches = driver->calls("cuLaunchKernel");;) {
    if (before_it().code != 0) return cannot_run;
    if (driver->calls("cuLaunchKernel") > launches + 1) break;  // the first is the self-test
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Run run = call.make(codec, by_c, placed, call.bytes, call.stripes);

  driver->watch(spare_allocations);
  if (driver->plan(fault.plan) != nullptr) return cannot_run;
  begin_shortage(nth, all);
  const Answer answer = run();
  const unsigned failed = end_shortage();
  if (nth != 0 && failed == 0) return enough_memory;
  const auto wrong = [&](const char* what) { return complain(call, fault, nth, all, answer, what); };

  driver->plan("");
  if (!fault.has("hang") || fault.has("lost")) driver->reset();  // what was lost can be read again
  const auto then = placed.content();
  driver->finish_hung();
  // Where the device is lost for good nothing runs any more.
  const bool has_ended = !call.on_stream || await_default_stream();
  if (!has_ended && answer.code == 0 && !fault.has("lost")) return wrong("the stream does not end");
  const auto at_last = placed.content();
  if (answer.code != 0 && answer.text.empty()) return wrong("no sentence");
  switch (answer.code) {
    case 0:
      if (!call.on_stream && then != stripes.intact) return wrong("done with wrong bytes");
      // Of a stream the caller hears of what is lost, and of wrong bytes nobody.
      if (call.on_stream && (fault.has("lost") || fault.has("wrong"))) break;
      if (at_last != stripes.intact) return wrong("done, and changed later");
      break;
    case ENOMEM:
    case ENODEV:
      if (then != before && call.make != add) return wrong("something was written");
      if (at_last != then) return wrong("something was written later");
      break;
    case EBUSY:
      if (at_last != then || (call.on_stream && then != before)) return wrong("something was written later");
      break;
    case EIO:
      if (!call.on_stream && at_last != then) return wrong("something was written later");
      break;
    case ETIMEDOUT:
      if (call.on_stream || !fault.has("hang")) return wrong("not of this call");
      break;
    default:
      return wrong("no such answer");
  }
  return nth == 0 ? of_answer + answer.code : 0;
}

/// The nth allocation for every n that there is. Cases, or -1.
int try_all(const Call& call, const Fault& fault, bool all) {
  for (unsigned nth = 1;; ++nth) {
    const int status = in_child([&] { return try_one(call, fault, nth, all); });
    if (status == enough_memory) return static_cast<int>(nth) - 1;
    if (status == violation) return -1;
    if (status == 0) continue;
    std::fprintf(stderr, "%s, \"%s\", allocation %u: the process ended with %d\n", call.name, fault.plan, nth,
                 status);
    return -1;
  }
}

int try_call(const Call& call) {
  int cases = 0, violations = 0;
  bool seen[256 - of_answer]{};
  for (const Fault& fault : device_faults) {
    const int status = in_child([&] { return try_one(call, fault, 0, false); });
    if (status == violation) ++violations;
    if (status != violation && status < of_answer) return cannot_run;
    if (status >= of_answer) seen[status - of_answer] = true;
    for (const bool all : {false, true}) {
      const int tried = try_all(call, fault, all);
      tried < 0 ? ++violations : cases += tried;
    }
  }
  // The faults are those that they are meant to be: a device that hangs is said where it may still write.
  const bool hangs =
      call.residence != pageable && !call.on_stream && call.make != update && call.make != verify;
  if (cases == 0 || !seen[0] ||
      seen[ETIMEDOUT] != (hangs || (call.make == update && call.residence == device)))
    return complain(call, device_faults[0], 0, false, {}, "the faults did not do what they should");
  return violations == 0 ? 0 : violation;
}

}  // namespace
}  // namespace ec::test

int main(int argc, char** argv) {
  using namespace ec::test;
  for (const Call& call : calls)
    if (argc == 2 && std::strcmp(argv[1], call.name) == 0) return try_call(call);
  std::fprintf(stderr, "usage: shortage_test CALL; calls:");
  for (const Call& call : calls) std::fprintf(stderr, " %s", call.name);
  std::fprintf(stderr, "\n");
  return 2;
}
