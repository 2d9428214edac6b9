#include "bench/common/oracle.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace ec::bench {

std::vector<std::vector<std::uint8_t>> judged(kernels::Backend& judge, const kernels::Job& job,
                                              bool accumulate) {
  std::vector<std::vector<std::uint8_t>> result;
  std::vector<kernels::Target> targets;
  for (const auto& t : job.targets)
    targets.push_back({result.emplace_back(t.data, t.data + job.bytes).data()});
  kernels::Job copy = job;
  copy.targets = targets;
  const auto status = accumulate ? judge.accumulate(copy) : judge.transform(copy);
  if (status != kernels::Status::ok)
    throw std::runtime_error(fmt::format("{} cannot verify: {}", judge.name(), kernels::name(status)));
  return result;
}

}  // namespace ec::bench
