// `ec_bench host --processes N`: the same measurement by many processes at once, in step.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace ec::bench {

/// What one of the processes measures. index: from 0. wait: until all of them are here.
using Member = std::function<nlohmann::json(unsigned index, const std::function<void()>& wait)>;

/// Runs it in `count` children of this process, which has one thread and has not used a GPU, and returns what
/// each of them returned. One that fails says why on stderr and ends them all. Throws std::runtime_error.
std::vector<nlohmann::json> run_in_processes(unsigned count, const Member& member);

}  // namespace ec::bench
