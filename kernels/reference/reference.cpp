// Jobs byte by byte.
#include <cstring>

#include "gf/gf256.hpp"
#include "kernels/backends.hpp"
#include "support/process_life.hpp"

namespace ec::kernels {
namespace {

class Reference final : public Backend {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  BackendKind kind() const noexcept override { return BackendKind::floor; }

  bool supports(const Job& job) const noexcept override { return host_addressable(job); }

  Status transform(const Job& job) noexcept override {
    if (!supports(job)) return Status::unsupported;
    for (const Target& target : job.targets)
      if (job.bytes != 0) std::memset(target.data, 0, job.bytes);
    return accumulate(job);
  }

  Status accumulate(const Job& job) noexcept override {
    if (!supports(job)) return Status::unsupported;
    for (unsigned t = 0; t < job.targets.size(); ++t)
      for (unsigned s = 0; s < job.sources.size(); ++s)
        gf::add_scaled({job.targets[t].data, job.bytes}, {job.sources[s].data, job.bytes},
                       job.program->matrix()(t, s));
    return Status::ok;
  }
};

}  // namespace

Backend& reference_backend() noexcept {
  static constinit NeverDestroyed<Reference> backend;
  return backend.value;
}

}  // namespace ec::kernels
