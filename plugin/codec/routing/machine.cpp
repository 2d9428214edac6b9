// The machine, read from /proc.
#include "plugin/codec/routing/machine.hpp"

#include <filesystem>
#include <fstream>

namespace ec::codec {
namespace {

/// What follows `key` and a colon in a file of such lines; empty if there is none.
std::string field(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

}  // namespace

Machine this_machine() {
  Machine machine{field("/proc/cpuinfo", "model name"), {}};
  if (machine.cpu.empty()) machine.cpu = "unknown";
  std::error_code error;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error))
    if (auto model = field(gpu->path() / "information", "Model"); !model.empty())
      machine.gpus.push_back(std::move(model));
  return machine;
}

}  // namespace ec::codec
