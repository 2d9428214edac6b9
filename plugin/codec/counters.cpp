#include "plugin/codec/counters.hpp"

#include "kernels/backends.hpp"

namespace ec::codec {

Counters& counters() noexcept {
  static Counters instance;
  return instance;
}

BackendCounts counts_of(std::string_view backend) noexcept {
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->name() == backend) return counters().read(i);
  return {};
}

}  // namespace ec::codec
