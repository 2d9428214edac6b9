// Opens a libisal.so and calls it.
#include "bench/cpu/loaded_isal.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <stdexcept>

#include "gf/generator.hpp"

namespace ec::bench {
namespace {

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw std::runtime_error(fmt::format("--isal: no {} in the library", symbol));
}

}  // namespace

LoadedIsal::LoadedIsal(const std::string& file)
    : name_("isal:" + std::filesystem::canonical(file).filename().string()) {
  // Bound to itself: the library's own calls must not reach the ISA-L that this program links.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) throw std::runtime_error(fmt::format("--isal {}: {}", file, dlerror()));
  find(library, "ec_init_tables", init_tables_);
  find(library, "ec_encode_data", encode_data_);
}

bool LoadedIsal::supports(const kernels::Job& job) const noexcept {
  return tables_.contains(job.program) && kernels::host_addressable(job);
}

void LoadedIsal::prepare(const kernels::Program& program) {
  const auto& matrix = program.matrix();
  std::vector<unsigned char> cells(matrix.cells().begin(), matrix.cells().end());
  auto& tables = tables_[&program];
  tables.resize(cells.size() * 32);
  init_tables_(static_cast<int>(matrix.cols()), static_cast<int>(matrix.rows()), cells.data(), tables.data());
}

kernels::Status LoadedIsal::transform(const kernels::Job& job) noexcept {
  const auto tables = tables_.find(job.program);
  if (tables == tables_.end()) return kernels::Status::unsupported;
  std::array<unsigned char*, gf::max_chunks> sources;
  std::array<unsigned char*, gf::max_chunks> targets;
  for (std::size_t i = 0; i < job.sources.size(); ++i)
    sources[i] = const_cast<unsigned char*>(job.sources[i].data);
  for (std::size_t i = 0; i < job.targets.size(); ++i) targets[i] = job.targets[i].data;
  encode_data_(static_cast<int>(job.bytes), static_cast<int>(job.sources.size()),
               static_cast<int>(job.targets.size()), tables->second.data(), sources.data(), targets.data());
  return kernels::Status::ok;
}

}  // namespace ec::bench
