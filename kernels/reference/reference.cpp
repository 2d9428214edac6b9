// Jobs byte by byte.
#include <algorithm>
#include <type_traits>

#include "gf/gf256.hpp"
#include "kernels/backends.hpp"

namespace ec::kernels {
namespace {

class Reference final : public Backend {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  BackendKind kind() const noexcept override { return BackendKind::floor; }

  bool supports(const Job& job) const noexcept override { return host_addressable(job); }

  Status code(const Job& job, Verb verb) noexcept override {
    if (!supports(job)) return Status::unsupported;
    for (unsigned t = 0; t < job.targets.size(); ++t) {
      const std::span target(job.targets[t].data, job.bytes);
      if (verb == Verb::transform) std::ranges::fill(target, 0);
      for (unsigned s = 0; s < job.sources.size(); ++s)
        gf::add_scaled(target, {job.sources[s].data, job.bytes}, job.program->matrix()(t, s));
    }
    return Status::ok;
  }
};

}  // namespace

Backend& reference_backend() noexcept {
  static_assert(std::is_trivially_destructible_v<Reference>);
  static constinit Reference backend;
  return backend;
}

}  // namespace ec::kernels
