// ec_bench SUBCOMMAND: measures the code directly (codec), the CPU path against the memory limit (cpu), the
// device kernels against the device's memory (kernels), calls against the link (host), and behind Ceph's
// interface (ceph).
// The latter is a program of its own beside this one, because this one links ISA-L: a plugin that it loaded
// would run that copy instead of the one it carries.
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "bench/codec/codec_road.hpp"
#include "bench/cpu/cpu.hpp"
#ifdef EC_WITH_CUDA
#include "bench/host/host.hpp"
#include "bench/kernels/kernels.hpp"
#endif
#include "bench/common/run.hpp"

namespace {

#ifdef EC_WITH_CUDA
constexpr const char* names = "codec, cpu, kernels, host, ceph";
#else
constexpr const char* names = "codec, cpu, ceph";
#endif

/// Becomes the program for `ceph`; returns only if that fails.
int become_ceph_bench(char** argv) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("ec_bench_ceph");
  execv(program.c_str(), argv);
  fmt::print(stderr, "ec_bench: sub-command ceph: {}: {}\n", program.string(), std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "codec")
    return ec::bench::run_subcommand(
        {ec::bench::codec_subcommand, ec::bench::make_codec_road, [] { return std::string("none"); }},
        {argv + 2, argv + argc});
  if (name == "cpu") return ec::bench::run_cpu({argv + 2, argv + argc});
#ifdef EC_WITH_CUDA
  if (name == "kernels") return ec::bench::run_kernels({argv + 2, argv + argc});
  if (name == "host") return ec::bench::run_host({argv + 2, argv + argc});
#endif
  if (name == "ceph") return become_ceph_bench(argv + 1);
  if (name == "--help") {
    fmt::print("ec_bench SUBCOMMAND [options]; sub-commands: {}; each takes --help\n", names);
    return 0;
  }
  fmt::print(stderr, "ec_bench: sub-command {}: must be one of {}\n", name.empty() ? "missing" : name, names);
  return 2;
}
