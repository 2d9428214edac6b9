// The list of back ends of the build, in which the one that EC_TEST_MUTANT names flips one bit of one byte in
// each call. Without the variable all are honest. Linked before libec_kernels, it takes the place of
// kernels/backends.cpp, which is compiled once more with its list under the name honest_backends().
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backends.hpp"
#include "tests/common/fake_backend.hpp"

namespace ec::kernels {

std::span<Backend* const> honest_backends() noexcept;

namespace {

/// Another chunk, byte and bit at every call; of many stripes, in one of them.
void flip_somewhere(std::span<const Job> jobs) {
  static std::atomic<std::size_t> calls{0};
  const std::size_t call = calls++;
  if (jobs.empty()) return;
  const Job& job = jobs[call % jobs.size()];
  if (job.bytes == 0 || job.targets.empty()) return;
  test::flip(job, call % job.targets.size(), call * 7919 % job.bytes,
             static_cast<std::uint8_t>(1u << call % 8));
}

std::vector<Backend*> with_mutant() {
  std::vector<Backend*> list(honest_backends().begin(), honest_backends().end());
  const char* name = std::getenv("EC_TEST_MUTANT");
  if (name == nullptr) return list;
  const auto found = std::ranges::find(list, std::string_view(name), &Backend::name);
  if (found == list.end()) {
    fmt::print(stderr, "EC_TEST_MUTANT={} is no back end of this build\n", name);
    std::abort();
  }
  static const auto mutant =
      std::make_unique<test::FakeBackend>((*found)->name(), (*found)->kind(), **found, flip_somewhere);
  *found = mutant.get();
  return list;
}

}  // namespace

std::span<Backend* const> backends() noexcept {
  static const auto* list = new std::vector<Backend*>(with_mutant());
  return *list;
}

}  // namespace ec::kernels
