// ec_bench SUBCOMMAND: measures back ends of the CPU against the memory limit (cpu), the GPU's kernels
// against its memory (gpu), calls on any memory against the link (host) and plugins behind Ceph's interfaces
// (ceph), counts instructions (instructions), and times the file tool (files). `ceph` is a program of its
// own, hidden beside this one: it needs Ceph's libraries, which the others do without.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "bench/common/options.hpp"

namespace {

/// Becomes the program for `ceph`, beside this one or where it is installed; returns only if that fails.
int become_ceph(char** argv) {
  const auto directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  auto program = directory / "ec_bench_ceph";
  if (!std::filesystem::exists(program)) program = directory.parent_path() / EC_LIBEXEC_DIR / "ec_bench_ceph";
  execv(program.c_str(), argv);
  fmt::print(stderr, "ec_bench: sub-command ceph: {}: {}\n", program.string(), std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ec::bench;
  static const std::map<std::string, Subcommand (*)()> here{
      {"cpu", cpu}, {"files", files}, {"instructions", instructions},
#ifdef EC_WITH_CUDA
      {"gpu", gpu}, {"host", host},
#endif
  };
  const std::string name = argc > 1 ? argv[1] : "";
  if (const auto found = here.find(name); found != here.end())
    return run(found->second(), {argv + 2, argv + argc});
  if (name == "ceph") return become_ceph(argv + 1);
  std::string names = "ceph";
  for (const auto& [each, subcommand] : here) names += ", " + each;
  if (name == "--version") {
    fmt::print("ec_bench {}\n", EC_VERSION);
  } else if (name == "--help" || name == "-h") {
    fmt::print("ec_bench SUBCOMMAND [options]; sub-commands: {}; each takes --help\n", names);
  } else {
    fmt::print(stderr, "ec_bench: sub-command {}: must be one of {}\n", name.empty() ? "missing" : name,
               names);
    return 2;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
