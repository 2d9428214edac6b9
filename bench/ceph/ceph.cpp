// `ec_bench ceph`: plugins behind the interface of the Ceph of this host, several in this process.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "bench/ceph/calls.hpp"
#include "bench/common/isal.hpp"
#include "bench/common/report.hpp"
#include "tests/host/plugin_host.hpp"

namespace ec::bench {
namespace {

namespace fs = std::filesystem;

/// One plugin that takes part.
struct Plugin {
  std::string name;       ///< it registers under, and is reported by
  std::string directory;  ///< of libec_NAME.so

  std::string file() const { return fmt::format("{}/libec_{}.so", directory, name); }
  /// Throws std::runtime_error if that file is not loaded.
  void* handle() const {
    if (void* const loaded = dlopen(file().c_str(), RTLD_NOW | RTLD_NOLOAD)) return loaded;
    throw std::runtime_error(fmt::format("{}: is not loaded, though plugin {} is", file(), name));
  }
};

/// Ours is that of the build that this program lies in; once installed, all lie together.
std::string usual_directory(const std::string& plugin) {
  const auto built = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/erasure-code";
  return plugin == "cuda" && fs::exists(built / "libec_cuda.so") ? built.string() : EC_STOCK_PLUGIN_DIR;
}

/// Where ISA-L's function lies that a loaded plugin calls: read from its linkage table, which is bound. Null
/// if it calls none by that table.
void* isal_called_by(const Plugin& plugin) {
  link_map* library = nullptr;
  dlinfo(plugin.handle(), RTLD_DI_LINKMAP, &library);
  std::map<ElfW(Sxword), ElfW(Addr)> dynamic;
  for (const auto* entry = library->l_ld; entry->d_tag != DT_NULL; ++entry)
    dynamic[entry->d_tag] = entry->d_un.d_ptr;
  const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic[DT_SYMTAB]);
  const auto* names = reinterpret_cast<const char*>(dynamic[DT_STRTAB]);
  for (const auto& [table, bytes] : {std::pair{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}})
    for (std::size_t i = 0; i < dynamic[bytes] / sizeof(ElfW(Rela)); ++i) {
      const auto& relocation = reinterpret_cast<const ElfW(Rela)*>(dynamic[table])[i];
      if (std::strcmp(names + symbols[ELF64_R_SYM(relocation.r_info)].st_name, function_of_isal) == 0)
        return *reinterpret_cast<void**>(library->l_addr + relocation.r_offset);
    }
  return nullptr;
}

/// The plugins of a command line. Throws UsageError, and std::runtime_error if this program exposes an ISA-L,
/// which would take the place of that of the plugins.
class Plugins {
 public:
  /// --plugin: NAME, or NAME=DIRECTORY where libec_NAME.so is not in its usual place. --isal: an ISA-L by
  /// which a copy of the plugin `isa` is to code beside that plugin. It works by the order of loading:
  /// plugins that are loaded after an ISA-L, and reach ISA-L through their linkage table, call its functions
  /// in place of their own.
  explicit Plugins(const CommandLine& line) {
    if (dlsym(RTLD_DEFAULT, function_of_isal) != nullptr)
      throw std::runtime_error("this program exposes an ISA-L, which would replace that of the plugins");
    for (const auto& text : line.list("plugin")) {
      const std::size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      // A host loads a name once.
      if (std::ranges::count(list_, name, &Plugin::name) != 0)
        throw UsageError(fmt::format("--plugin {}: {} is there twice", text, name));
      list_.push_back({name, equals == std::string::npos ? usual_directory(name) : text.substr(equals + 1)});
    }
    for (const Plugin& plugin : list_) {
      // Bound to what it carries, before another ISA-L is there.
      make_code(plugin, 4, 2);
      // ec_adopt links our file under others' names; hosts that left us have Ceph's file under our name.
      const bool is_ours = dlsym(plugin.handle(), "ec_cuda_version") != nullptr;
      if (is_ours != (plugin.name == "cuda"))
        throw UsageError(fmt::format("--plugin {}={}: must {}be ec_cuda's file", plugin.name,
                                     plugin.directory, is_ours ? "not " : ""));
    }
    if (line.given("isal")) add_peer(line.text("isal"));
  }

  const std::vector<Plugin>& list() const { return list_; }
  /// ISA-L's function that the plugin `isa` calls, if that is there and calls one that can be found.
  const void* isal() const {
    const auto plain = std::ranges::find(list_, "isa", &Plugin::name);
    return plain == list_.end() ? nullptr : isal_called_by(*plain);
  }

  /// The technique that they all have in common for that shape.
  gf::Technique technique_for(unsigned k, unsigned m) const {
    // jerasure has no other matrix in common with anyone.
    const bool has_jerasure = std::ranges::find(list_, "jerasure", &Plugin::name) != list_.end();
    return has_jerasure ? gf::Technique::jerasure_reed_sol_van : bench::technique_for({k, m});
  }

  /// An object of the plugin for that code, behind the interface that this host speaks.
  ::ceph::ErasureCodeInterfaceRef make_code(const Plugin& plugin, unsigned k, unsigned m) const {
    ::ceph::ErasureCodeProfile profile{
        {"plugin", plugin.name},
        {"technique",
         plugin.name == "jerasure" ? "reed_sol_van" : std::string(gf::name(technique_for(k, m)))},
        {"k", std::to_string(k)},
        {"m", std::to_string(m)}};
    std::ostringstream why;
    const auto made = host::PluginHost::instance().make(plugin.name, plugin.directory, profile, &why);
    if (!made)
      throw UsageError(
          fmt::format("--plugin {}={}: {} ({})", plugin.name, plugin.directory, why.str(), made.error));
    return made.code;
  }

 private:
  void add_peer(const std::string& file) {
    const auto plain = std::ranges::find(list_, "isa", &Plugin::name);
    if (plain == list_.end()) throw UsageError("--isal: needs the plugin isa, by which it is to code");
    const void* const function = dlsym(open_isal(file, RTLD_GLOBAL), function_of_isal);
    // A second copy of the plugin, for the loader takes one file once.
    std::string folder = fs::temp_directory_path() / "ec_bench_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr)
      throw std::runtime_error(fmt::format("{}: {}", folder, std::strerror(errno)));
    const std::shared_ptr<void> removed(nullptr, [&](void*) { fs::remove_all(folder); });
    const Plugin copy{"isa:" + fs::path(file).filename().string(), folder};
    fs::copy_file(plain->file(), copy.file());
    make_code(copy, 4, 2);
    // Whose functions they call is seen, and not believed.
    if (isal_called_by(copy) != function) throw std::runtime_error(copy.name + " runs its own ISA-L");
    if (isal() == function) throw std::runtime_error("isa runs the given ISA-L");
    list_.push_back(copy);
  }

  std::vector<Plugin> list_;
};

void measure_case(CephCase c, std::size_t memory, const Plugins& plugins, bool tentacle, const Pace& pace,
                  Report& report) {
  c.technique = plugins.technique_for(c.k, c.m);
  std::vector<Coder> coders;
  for (const Plugin& plugin : plugins.list()) {
    coders.emplace_back(plugin.name, plugins.make_code(plugin, c.k, c.m));
    // Its slot is the same in all releases.
    const std::size_t bytes = coders.back().second->get_chunk_size(static_cast<unsigned>(c.object_bytes));
    if (c.chunk_bytes != 0 && bytes != c.chunk_bytes)
      throw std::runtime_error(fmt::format("{}: chunks of {} bytes, and of {} by {}", plugin.name, bytes,
                                           c.chunk_bytes, coders.front().first));
    c.chunk_bytes = bytes;
  }
  c.turns = std::max<std::size_t>(memory / (c.chunk_bytes * (c.k + c.m)), 1);
  const auto contestants = ceph_contestants(c, coders, tentacle);
  Workers workers(1);
  const auto results = measure(workers, contestants, {.turns = c.turns, .checked_turns = 2}, pace);
  const Figures figures(contestants, results);
  const auto stock = figures.find("isa") ? figures.find("isa") : figures.find("jerasure");
  for (std::size_t i = 0; i < coders.size(); ++i) {
    const Row row{{"object_bytes", c.object_bytes},
                  {"stripes", c.turns},
                  {"coder", coders[i].first},
                  {"call_us", 1e6 * figures.call_seconds(i)},
                  {"object_gbps", figures.per_second(i, c.gb())},
                  {"ratio", figures.times(i, stock)},
                  {"ratio_peer", figures.times(i, figures.fastest("isa:"))},
                  {"noise", figures.noise_percent(i)}};
    report.add(row_of(c, row), figures.verified(i));
  }
}

int measure_ceph(const CommandLine& line) {
  const std::string host = host::PluginHost::version();
  const bool tentacle = host.starts_with("20.");
  std::vector<CephCase> cases;
  for (const auto& op : line.list("ops", ops_of(tentacle)))
    for (const Shape& shape : line.shapes("shapes"))
      for (const std::size_t size : line.numbers("sizes", 1, 2 * gib))
        cases.push_back({{op, technique_for(shape), shape.first, shape.second}, size});
  const std::size_t memory = line.number("memory", 0, 16 * gib);
  const Pace pace{.rounds = line.number("rounds", 1, most_rounds),
                  .sample_seconds = line.seconds("sample-ms")};
  const Plugins plugins(line);
  // A plugin may lack a shape.
  for (const CephCase& c : cases)
    for (const Plugin& plugin : plugins.list()) plugins.make_code(plugin, c.k, c.m);
  Report report(line, {{"host", "Ceph " + host}, isal_line(plugins.isal())});
  for (const CephCase& c : cases) measure_case(c, memory, plugins, tentacle, pace, report);
  return report.finish();
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  using namespace ec::bench;
  return run({"ceph",
              {{"plugin", "cuda,isa",
                "plugins, NAME or NAME=DIRECTORY of libec_NAME.so; cuda,jerasure: jerasure's reed_sol_van"},
               {"isal", "", "a libisal.so by which the plugin isa is to code too, beside isa with its own"},
               {"ops", "encode",
                fmt::format("functions: {}; under Ceph 16 to 19: {}", fmt::join(ops_of(true), ", "),
                            fmt::join(ops_of(false), ", "))},
               {"shapes", "4+2,8+3,10+4", "data+coding chunks"},
               {"sizes", "16K,256K,4M,64M",
                "object bytes of one call (k x chunk, before padding), suffixes K, M, G; from 1M on, earlier "
                "cases move figures unless MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ are set high"},
               {"memory", "0", "bytes of stripes that calls go round; 0: one stripe, over and over"},
               {"rounds", "15", "samples of each plugin, taken in turn"},
               {"sample-ms", "10", "shortest time of a sample"}},
              measure_ceph},
             {argv + 1, argv + argc});
}
