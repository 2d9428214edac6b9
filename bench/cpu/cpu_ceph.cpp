#include "bench/cpu/cpu_ceph.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace ec::bench {
namespace {

struct Run {
  const char* ops;
  const char* erasures;  ///< empty: m
};

// Losing m and losing one are runs of their own, because a list of losses applies to every shape.
constexpr std::array<Run, 2> runs{{{"encode,decode,read", ""}, {"decode", "1"}}};

void execute(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  std::fflush(stdout);
  pid_t child = 0;
  if (const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environ))
    throw std::runtime_error(fmt::format("{}: {}", program.string(), std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(fmt::format("{} failed", program.string()));
}

nlohmann::json to_cpu_row(const nlohmann::json& row) {
  nlohmann::json out{{"contestant", "plugin " + row.at("backend").get<std::string>()},
                     {"road", "ceph"},
                     {"layout", "contiguous"},
                     {"temperature", row.at("memory")},
                     {"limit_gbps", nullptr},
                     {"ratio_limit", nullptr},
                     {"ratio_isal", nullptr},
                     {"noise", row.at("noise_percent")},
                     {"call_us", 1e6 * row.at("median_seconds").get<double>()},
                     {"source_gbps", row.at("object_gbps")},
                     {"ratio_isa_plugin", row.at("ratio")}};
  for (const char* same :
       {"op", "technique", "k", "m", "erasures", "chunk_bytes", "object_bytes", "threads", "verified"})
    out[same] = row.at(same);
  return out;
}

}  // namespace

nlohmann::json ceph_rows(const std::vector<std::string>& pace) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("ec_bench_ceph");
  const auto report = std::filesystem::temp_directory_path() /
                      fmt::format("ec_bench_cpu_{}.json", static_cast<int>(getpid()));
  nlohmann::json rows = nlohmann::json::array();
  for (const Run& run : runs) {
    std::vector<std::string> arguments{"ceph",
                                       "--plugin",
                                       "cuda,isa",
                                       "--shapes",
                                       "2+1,4+2,6+3,8+3,8+4,10+4,16+4",
                                       "--sizes",
                                       "16K,64K,256K,1M,4M,64M",
                                       "--ops",
                                       run.ops,
                                       "--json",
                                       report.string()};
    if (*run.erasures != '\0') arguments.insert(arguments.end(), {"--erasures", run.erasures});
    arguments.insert(arguments.end(), pace.begin(), pace.end());
    execute(program, arguments);
    const nlohmann::json made = nlohmann::json::parse(std::ifstream(report));
    for (const auto& row : made.at("rows")) rows.push_back(to_cpu_row(row));
    std::filesystem::remove(report);
  }
  return rows;
}

}  // namespace ec::bench
