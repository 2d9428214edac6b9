// The sub-commands of ec_bench. Each takes the arguments behind its name and returns the exit status: 0; 1 if
// bytes were wrong, something failed or there is no device; 2 for a command line that cannot be used; 77 if
// nothing can be counted here.
#pragma once

#include <string>
#include <vector>

namespace ec::bench {

/// The back ends of the CPU beside the memory bound.
int run_cpu(const std::vector<std::string>& arguments);
/// The device kernels on chunks in device memory, against a copy and against plain XOR.
int run_gpu(const std::vector<std::string>& arguments);
/// Calls through the codec by residence, size, threads and back end, beside what the link can do.
int run_host(const std::vector<std::string>& arguments);
/// Instructions of calls, beside recorded ones.
int run_instructions(const std::vector<std::string>& arguments);
/// The file tool beside others.
int run_files(const std::vector<std::string>& arguments);

}  // namespace ec::bench
