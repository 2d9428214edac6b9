// ec_bench SUBCOMMAND: measures the CPU path against the memory limit (cpu), the device kernels against the
// device's memory (kernels), calls against the link (host), and behind Ceph's interfaces
// (ceph, tentacle).
// The latter two are programs of their own beside this one, because this one links ISA-L: a plugin that it
// loaded would run that copy instead of the one it carries.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "bench/subcommands.hpp"

namespace {

#ifdef EC_WITH_CUDA
constexpr const char* names = "cpu, kernels, host, ceph, tentacle";
#else
constexpr const char* names = "cpu, ceph, tentacle";
#endif

/// Becomes the program for that sub-command, beside this one or where it is installed; returns only if that
/// fails.
int become(const std::string& name, char** argv) {
  const auto directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string file = "ec_bench_" + name;
  auto program = directory / file;
  if (!std::filesystem::exists(program)) program = directory.parent_path() / EC_LIBEXEC_DIR / file;
  execv(program.c_str(), argv);
  fmt::print(stderr, "ec_bench: sub-command {}: {}: {}\n", name, program.string(), std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ec::bench;
  const std::string name = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + std::min(2, argc), argv + argc);
  if (name == "cpu") return run_cpu(arguments);
#ifdef EC_WITH_CUDA
  if (name == "kernels") return run_kernels(arguments);
  if (name == "host") return run_host(arguments);
#endif
  if (name == "ceph" || name == "tentacle") return become(name, argv + 1);
  if (name == "--version") {
    fmt::print("ec_bench {}\n", EC_VERSION);
    return 0;
  }
  if (name == "--help" || name == "-h") {
    fmt::print("ec_bench SUBCOMMAND [options]; sub-commands: {}; each takes --help\n", names);
    return 0;
  }
  fmt::print(stderr, "ec_bench: sub-command {}: must be one of {}\n", name.empty() ? "missing" : name, names);
  return 2;
}
