// A sub-command from its command line to its report.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/contestant.hpp"
#include "bench/common/options.hpp"

namespace ec::bench {

struct Entry {
  Subcommand (*describe)();
  std::unique_ptr<Road> (*make)(const std::vector<std::string>& contestants);
  std::string (*host_version)();
};

/// What `body` returns; 2 with its text on stderr if it throws UsageError, 1 if it throws another exception.
int exit_status_of(const std::function<int()>& body);

/// Exit status of a program that does this and nothing else: 0, 1 if a contestant made wrong bytes or failed,
/// 2 for a command line that cannot be used. arguments: those after the name of the sub-command.
int run_subcommand(const Entry& entry, const std::vector<std::string>& arguments);

}  // namespace ec::bench
