// Loads the plugins that are measured.
#include "bench/ceph/plugins.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "bench/common/options.hpp"
#include "tests/host/plugin_host.hpp"

namespace ec::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* isa = "isa";
constexpr const char* jerasure = "jerasure";

/// Ours is that of the build that this program lies in; once installed, all lie together.
std::string usual_directory(const std::string& plugin) {
  const auto built = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/erasure-code";
  return plugin == "cuda" && fs::exists(built / "libec_cuda.so") ? built.string() : EC_STOCK_PLUGIN_DIR;
}

/// For the handler of SIGSEGV.
const std::vector<PeerIsal::Segment>* closed_code = nullptr;
volatile std::sig_atomic_t code_was_run = 0;

void set_executable(const std::vector<PeerIsal::Segment>& code, bool executable) {
  for (const auto& [begin, bytes] : code)
    if (mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | (executable ? PROT_EXEC : 0)) != 0)
      throw std::runtime_error(fmt::format("mprotect: {}", std::strerror(errno)));
}

void open_code(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const auto& [begin, bytes] : *closed_code) {
    if (at < begin || at >= begin + bytes) continue;
    code_was_run = 1;
    return set_executable(*closed_code, true);
  }
  std::signal(signal, SIG_DFL);  // any other fault happens again, and ends the process
}

}  // namespace

PeerIsal::PeerIsal(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw UsageError(fmt::format("--isal {}: {}", file, dlerror()));
  Dl_info info{};
  void* const function = dlsym(library, "ec_encode_data");
  if (function == nullptr || dladdr(function, &info) == 0)
    throw UsageError(fmt::format("--isal {}: must be an ISA-L", file));
  name_ = fs::path(file).filename();
  struct Search {
    void* base;
    std::vector<Segment>* code;
  } search{info.dli_fbase, &code_};
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        const auto& [base, code] = *static_cast<Search*>(data);
        if (reinterpret_cast<void*>(library->dlpi_addr) != base) return 0;
        for (unsigned i = 0; i < library->dlpi_phnum; ++i) {
          const auto& segment = library->dlpi_phdr[i];
          constexpr std::uintptr_t page = 4096;
          const std::uintptr_t begin = (library->dlpi_addr + segment.p_vaddr) / page * page;
          const std::uintptr_t end = library->dlpi_addr + segment.p_vaddr + segment.p_memsz;
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
            code->push_back({begin, (end - begin + page - 1) / page * page});
        }
        return 1;
      },
      &search);
}

bool PeerIsal::is_run_by(const std::function<void()>& call) const {
  struct sigaction trap {
  }, before{};
  trap.sa_sigaction = open_code;
  trap.sa_flags = SA_SIGINFO;
  closed_code = &code_;
  code_was_run = 0;
  sigaction(SIGSEGV, &trap, &before);
  set_executable(code_, false);
  call();
  set_executable(code_, true);
  sigaction(SIGSEGV, &before, nullptr);
  return code_was_run != 0;
}

Plugins::Plugins(const std::vector<std::string>& list, const std::string& peer_file) {
  if (dlsym(RTLD_DEFAULT, "ec_encode_data") != nullptr)
    throw std::runtime_error("this program exposes an ISA-L, which would replace that of the plugins");
  if (!peer_file.empty() && access(peer_file.c_str(), R_OK) != 0)
    throw UsageError(fmt::format("--isal {}: must be a libisal.so that can be read", peer_file));
  for (const auto& text : list) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    list_.push_back({name, equals == std::string::npos ? usual_directory(name) : text.substr(equals + 1)});
  }
  // Bound to what they carry, before another ISA-L is there.
  for (const Plugin& plugin : list_) make_code(plugin, technique_for(4, 2), 4, 2);
  if (peer_file.empty()) return;
  const auto plain = std::ranges::find(list_, isa, &Plugin::name);
  if (plain == list_.end()) throw UsageError("--isal: needs the plugin isa, by which it is to code");
  peer_.emplace(peer_file);
  // A second copy of the plugin, for the loader takes one file once.
  char folder[] = "/tmp/ec_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
  const Plugin copy{fmt::format("isa:{}", peer_->name()), folder, true};
  fs::copy_file(fs::path(plain->directory) / "libec_isa.so",
                fmt::format("{}/libec_{}.so", folder, copy.name));
  make_code(copy, technique_for(4, 2), 4, 2);
  fs::remove_all(folder);
  list_.push_back(copy);
}

gf::Technique Plugins::technique_for(unsigned k, unsigned m) const {
  // jerasure has no other matrix in common with anyone.
  const bool has_jerasure = std::ranges::find(list_, jerasure, &Plugin::name) != list_.end();
  return has_jerasure ? gf::Technique::jerasure_reed_sol_van : bench::technique_for({k, m});
}

::ceph::ErasureCodeInterfaceRef Plugins::make_code(const Plugin& plugin, gf::Technique technique, unsigned k,
                                                   unsigned m) const {
  ::ceph::ErasureCodeProfile profile{
      {"plugin", plugin.name},
      {"technique", plugin.name == jerasure ? "reed_sol_van" : std::string(gf::name(technique))},
      {"k", std::to_string(k)},
      {"m", std::to_string(m)}};
  std::ostringstream why;
  const auto made = host::PluginHost::instance().make(plugin.name, plugin.directory, profile, &why);
  if (!made)
    throw UsageError(
        fmt::format("--plugin {}={}: {} ({})", plugin.name, plugin.directory, why.str(), made.error));
  return made.code;
}

}  // namespace ec::bench
