// Codecs in the corners of a process's life, through the C door. Each argument is a process of its own:
//   at_exit    a static object creates and uses codecs in its destructor
//   forked     children of fork() create codecs, while the parent's threads were creating them
//   no_memory  allocations fail: every one from the n-th on, for each n, in the first calls of a process,
//              and in calls that code bit by bit, verify and identify
//   other_isal the program exports functions of ISA-L's names which do nothing, as a host with a stub or
//              another version of its own might; run with EC_CUDA_BACKEND=isal
//   cancelled  a thread that pthread_cancel() has been called for creates, codes, verifies, accumulates,
//              identifies, forks, and is cancelled afterwards
// Exit status: 0 if every call answered as ec.h says.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "ec/ec.h"
#include "tests/common/allocator.hpp"
#include "tests/common/child.hpp"
#include "tests/common/threads.hpp"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "process_life: %s: %s\n", what, ec_error_text());
  std::_Exit(1);
}

/// Creates a codec of this shape and has it make the XOR of its data.
void create_and_encode(unsigned k) {
  ec_codec* codec = nullptr;
  if (ec_codec_create(k, 1, EC_CAUCHY, &codec) != 0) fail("create");
  std::vector<unsigned char> data(k * 64, 7), coding(64);
  std::vector<ec_source> sources;
  for (unsigned i = 0; i < k; ++i) sources.push_back({&data[i * 64], EC_PAGEABLE});
  const ec_target target{coding.data(), EC_PAGEABLE};
  if (ec_encode(codec, 1, sources.data(), &target, 64) != 0) fail("encode");
  for (const unsigned char byte : coding)
    if (byte != (k % 2 == 1 ? 7 : 0)) fail("wrong byte");
  ec_codec_destroy(codec);
}

struct AtExit {
  bool wanted = false;
  ~AtExit() {
    if (!wanted) return;
    for (unsigned k = 2; k < 60; ++k) create_and_encode(k);
    std::fputs("used at exit\n", stderr);
  }
} at_exit;

/// EC_TEST_DRIVER: what calls must have loaded.
void need_driver() {
  const char* const driver = std::getenv("EC_TEST_DRIVER");
  // The thread that brings the device up may not have come so far.
  for (int tries = 0; driver != nullptr && dlopen(driver, RTLD_LAZY | RTLD_NOLOAD) == nullptr; ++tries)
    if (tries == 60'000 || usleep(1000) != 0) fail("the device is not there");
}

bool all_loaded = false;

void try_forks() {
  all_loaded = true;
  // The first calls of the library are under way in threads while their process forks.
  for (int i = 0; i < 100; ++i) {
    const int status = ec::test::in_child([] {
      std::atomic<bool> stop{false};
      const auto threads = ec::test::threads_of(3, [&stop](unsigned t) {
        for (unsigned k = 2 + t; !stop; k = k % 100 + 2) create_and_encode(k);
      });
      int failed = 0;
      for (int n = 0; n < 8 && failed == 0; ++n)
        failed = ec::test::in_child([] {
          create_and_encode(5);
          return 0;
        });
      stop = true;
      need_driver();
      return failed;
    });
    if (status == 0) continue;
    std::fprintf(stderr, "process_life: a child ended with %d\n", status);
    std::_Exit(1);
  }
}

/// Chunks of a 4+2 code.
struct Stripe {
  static constexpr unsigned bytes = 64;
  Stripe() {
    for (unsigned i = 0; i < 6; ++i) sources[i] = {memory[i], EC_PAGEABLE};
    for (unsigned i = 0; i < 6; ++i) targets[i] = {memory[i], EC_PAGEABLE};
  }
  unsigned char memory[6][bytes] = {};
  ec_source sources[6];
  ec_target targets[6];
};
constexpr unsigned all[] = {0, 1, 2, 3, 4, 5};

/// Makes the first chunk out of the next four.
int decode_one(const ec_codec* codec) {
  Stripe stripe;
  return ec_decode(codec, 1, all + 1, 4, stripe.sources + 1, all, 1, stripe.targets, Stripe::bytes);
}

void try_without_memory() {
  for (unsigned n = 1;; ++n) {
    const int status = ec::test::in_child([n] {
      ec_codec* codec = nullptr;
      ec::test::begin_shortage(n, true);
      const int first = ec_codec_create(4, 2, EC_CAUCHY, &codec);
      const int second = first == 0 ? 0 : ec_codec_create(4, 2, EC_CAUCHY, &codec);
      const int decoded = first == 0 ? decode_one(codec) : 0;
      const bool ran_out = ec::test::end_shortage() != 0;
      if (decoded != 0 && (decoded != -ENOMEM || decode_one(codec) != 0)) fail("decode without memory");
      if (first != 0 && (first != -ENOMEM || second != -ENOMEM || codec != nullptr)) fail("without memory");
      if (first != 0) create_and_encode(4);
      ec_codec_destroy(codec);
      return ran_out ? 0 : 77;
    });
    if (status == 77 && n > 6) break;  // all that it needs
    if (status != 0) {
      std::fprintf(stderr, "process_life: when allocation %u failed it ended with %d\n", n, status);
      std::_Exit(1);
    }
  }
}

/// The calls that make one answer out of many parts, with n allocations for each n: done, or -ENOMEM and
/// nothing written.
void try_later_calls_without_memory() {
  constexpr unsigned bytes = Stripe::bytes;
  Stripe stripe;
  for (unsigned i = 0; i < 4 * bytes; ++i)
    stripe.memory[i / bytes][i % bytes] = static_cast<unsigned char>(i * i + i / 7);
  const ec_source* const shards = stripe.sources;
  const ec_target* const coding = stripe.targets + 4;
  ec_codec* codec = nullptr;
  if (ec_codec_create(4, 2, EC_CAUCHY, &codec) != 0 || ec_encode(codec, 1, shards, coding, bytes) != 0)
    fail("encode");
  unsigned char expected[6][bytes];
  std::memcpy(expected, stripe.memory, sizeof expected);
  ec_verdict verdict{};
  const std::function<int()> calls[] = {
      [&] {
        const int answer = ec_verify(codec, 1, all, 6, shards, bytes, &verdict);
        if (answer == 0 && verdict.agree != 1) fail("verify");
        return answer;
      },
      [&] {
        char* found = nullptr;
        const int answer = ec_identify(shards, 6, bytes, &found);
        if ((answer == 0) != (found != nullptr && std::strstr(found, "isal_cauchy") != nullptr))
          fail("identify");
        std::free(found);
        return answer;
      },
      [&] {
        ec_accumulator* state = nullptr;
        const int begun = ec_begin(codec, 1, all, 4, all + 4, 2, coding, bytes, &state);
        if (begun != 0 && state != nullptr) fail("begin");
        if (begun != 0) return begun;
        int shortages = 0;
        for (unsigned chunk = 0; chunk < 4; ++chunk) {
          // What lacked memory may be added again.
          for (int added; (added = ec_add(state, chunk, &shards[chunk])) != 0; ++shortages) {
            if (added != -ENOMEM) fail("add");
            ec::test::end_shortage();
          }
        }
        if (ec_end(state) != 0) fail("end");
        return shortages == 0 ? 0 : -ENOMEM;
      }};
  for (const auto& call : calls)
    for (unsigned n = 1;; ++n) {
      ec::test::begin_shortage(n, true);
      const int answer = call();
      const bool ran_out = ec::test::end_shortage() != 0;
      if (answer != 0 && answer != -ENOMEM) fail("without memory");
      if (std::memcmp(stripe.memory, expected, sizeof expected) != 0) fail("wrong bytes without memory");
      if (answer == 0 && !ran_out) break;
    }
  ec_codec_destroy(codec);
}

/// Whether the calls of the cancelled thread returned, and its child.
bool returned = false;
pid_t child = 0;

void* call_cancelled(void*) {
  pthread_cancel(pthread_self());
  create_and_encode(5);
  ec_codec* codec = nullptr;
  if (ec_codec_create(4, 2, EC_CAUCHY, &codec) != 0) fail("create");
  if (decode_one(codec) != 0) fail("decode");
  Stripe stripe;
  ec_source* const data = stripe.sources;
  ec_target* const coding = stripe.targets + 4;
  if (ec_update(codec, 1, 0, data, coding, 64) != 0) fail("update");
  ec_verdict verdict;
  if (ec_verify(codec, 1, all, 6, data, 64, &verdict) != 0) fail("verify");
  if (ec_checked_decode(codec, 1, all + 1, 5, data + 1, all, 1, stripe.targets, 64) != 0) fail("checked");
  ec_accumulator* sums = nullptr;
  if (ec_begin(codec, 1, all, 4, all + 4, 2, coding, 64, &sums) != 0) fail("begin");
  for (unsigned chunk = 0; chunk < 4; ++chunk)
    if (ec_add(sums, chunk, data + chunk) != 0) fail("add");
  if (ec_end(sums) != 0) fail("end");
  char* found = nullptr;
  ec_identify(data, 6, 64, &found);  // the chunks are zeros
  std::free(found);
  // These wait for a device that may come up.
  coding[0].residence = EC_DEVICE;
  if (std::getenv("EC_CUDA_BACKEND") == nullptr && ec_encode(codec, 1, data, coding, 64) == 0)
    fail("no device");
  for (auto& chunk : stripe.sources) chunk.residence = EC_PINNED;
  coding[0].residence = coding[1].residence = EC_PINNED;
  if (std::getenv("EC_CUDA_BACKEND") == nullptr && ec_encode_async(codec, 1, data, coding, 64, nullptr) == 0)
    fail("no device for a stream");
  ec_codec_destroy(codec);
  if (child = fork(); child == 0) _exit(0);
  returned = true;
  pthread_testcancel();
  return nullptr;
}

void try_cancelled() {
  pthread_t thread;
  void* end = nullptr;
  if (pthread_create(&thread, nullptr, call_cancelled, nullptr) != 0 || pthread_join(thread, &end) != 0)
    fail("thread");
  if (!returned || end != PTHREAD_CANCELED) fail("cancelled in a call, or not at all");
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("cancelled in a handler of fork()");
  need_driver();
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default"), used))
EXPORTED void ec_encode_data(int, int, int, unsigned char*, unsigned char**, unsigned char**) {}
EXPORTED void ec_encode_data_update(int, int, int, int, unsigned char*, unsigned char*, unsigned char**) {}
EXPORTED void ec_init_tables(int, int, unsigned char*, unsigned char*) {}
EXPORTED void gf_vect_mul_init(unsigned char, unsigned char*) {}

/// Of the C library. A handler that is registered in a call is not there yet for a fork() in this moment.
EXPORTED int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* library) {
  if (all_loaded) fail("a handler of fork() is registered after the library was loaded");
  static const auto next =
      reinterpret_cast<decltype(&__register_atfork)>(dlsym(RTLD_NEXT, "__register_atfork"));
  return next(prepare, parent, child, library);
}

int main(int argc, char** argv) {
  const char* what = argc == 2 ? argv[1] : "";
  if (std::strcmp(what, "at_exit") == 0) {
    at_exit.wanted = true;
    create_and_encode(2);
  } else if (std::strcmp(what, "forked") == 0) {
    try_forks();
  } else if (std::strcmp(what, "no_memory") == 0) {
    try_without_memory();
    try_later_calls_without_memory();
  } else if (std::strcmp(what, "other_isal") == 0) {
    create_and_encode(5);
  } else if (std::strcmp(what, "cancelled") == 0) {
    try_cancelled();
  } else {
    std::fprintf(stderr, "usage: process_life at_exit|forked|no_memory|other_isal|cancelled\n");
    return 2;
  }
  return 0;
}
