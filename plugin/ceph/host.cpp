// Symbols of Ceph's daemons: a weak one is null where the daemon that loaded us does not export it. Ceph's
// own logging has another binary form in each release. A log file is known by its open descriptor: every
// write appends, so a line of ours stands between two of the daemon's.
#include "plugin/ceph/host.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <new>
#include <ostream>
#include <set>
#include <tuple>

[[gnu::weak, gnu::visibility("default")]] const char* ceph_version_to_str();

/// ceph::buffer::create(), of the type that Ceph 16 to 20 have.
extern "C" [[gnu::weak, gnu::visibility("default")]] void create_buffer() asm(
    "_ZN4ceph6buffer7v15_2_06createEj");

class [[gnu::visibility("default")]] CrushWrapper {
 public:
  /// To Ceph 18.
  [[gnu::weak]] int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                                    std::string device_class, std::string mode, int rule_type,
                                    std::ostream* why);
  /// From Ceph 19, with the number of failure domains.
  [[gnu::weak]] int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                                    int failure_domains, std::string device_class, std::string mode,
                                    int rule_type, std::ostream* why);
  /// From Ceph 19.
  [[gnu::weak]] int add_indep_multi_osd_per_failure_domain_rule(
      std::string name, std::string root, std::string failure_domain, int failure_domains, int osds,
      std::string device_class, std::ostream* why);
};

namespace ec::ceph {
namespace {

using Rule = int (CrushWrapper::*)(std::string, std::string, std::string, std::string, std::string, int,
                                   std::ostream*);
using RuleOfDomains = int (CrushWrapper::*)(std::string, std::string, std::string, int, std::string,
                                            std::string, int, std::ostream*);

constexpr int first_classic_release = 16;
constexpr int last_classic_release = 19;

/// pg_pool_t::TYPE_ERASURE
constexpr int rule_type_erasure = 3;
std::atomic<::ceph::ErasureCodePlugin*> rule_maker{nullptr};

/// A rule is of so many shards; which of them are data makes no difference.
int add_rule_of(::ceph::ErasureCodePlugin& isa, const std::string& name, CrushWrapper& crush,
                const PoolProfile& profile, std::ostream& says) {
  ::ceph::ErasureCodeProfile like{{"plugin", "isa"},
                                  {"technique", "cauchy"},
                                  {"k", std::to_string(profile.k + profile.m - 1)},
                                  {"m", "1"},
                                  {"crush-root", profile.crush_root},
                                  {"crush-failure-domain", profile.crush_failure_domain},
                                  {"crush-device-class", profile.crush_device_class}};
  ::ceph::ErasureCodeInterfaceRef code;
  const int error = isa.factory("", like, &code, &says);
  return error != 0 ? error : code->create_rule(name, crush, &says);
}

/// The names of all dynamic symbols of the program, one after the other.
std::string_view names_in_host() noexcept {
  void* program = dlopen(nullptr, RTLD_LAZY);
  link_map* map = nullptr;
  if (program == nullptr || dlinfo(program, RTLD_DI_LINKMAP, &map) != 0) return {};
  const char* names = nullptr;
  std::size_t bytes = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRSZ) bytes = entry->d_un.d_val;
  }
  return names == nullptr ? std::string_view{} : std::string_view{names, bytes};
}

namespace fs = std::filesystem;

/// The descriptor of the daemon's log; -1 where there is none.
int daemon_log() {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path file = fs::read_symlink(entry.path(), gone);
    const int descriptor = std::atoi(entry.path().filename().c_str());
    const int flags = fcntl(descriptor, F_GETFL);
    if (is_daemon_log(file) && flags >= 0 && (flags & O_APPEND) != 0) return descriptor;
  }
  return -1;
}

/// Whether the line has not been written before.
bool is_news(const std::string& line) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string>;  // lives as long as the process, whatever ends first
  const std::lock_guard lock(mutex);
  return told->insert(line).second;
}

}  // namespace

const char* host_version() noexcept { return exists(&ceph_version_to_str) ? ceph_version_to_str() : nullptr; }

int release_of(const char* version) noexcept {
  if (version == nullptr) return 0;
  int release = 0;
  const char* end = version + std::strlen(version);
  const auto [rest, error] = std::from_chars(version, end, release);
  return error != std::errc{} || rest == end || *rest != '.' ? 0 : release;
}

Dialect dialect_of(const char* version) noexcept {
  const int release = release_of(version);
  // The second number: 1 is a candidate, 2 a release.
  if (const char* dot = release == 0 ? nullptr : std::strchr(version, '.');
      dot == nullptr || (dot[1] != '1' && dot[1] != '2') || dot[2] != '.')
    return Dialect::none;
  if (release == tentacle_release) return Dialect::tentacle;
  return release >= first_classic_release && release <= last_classic_release ? Dialect::classic
                                                                             : Dialect::none;
}

bool is_osd() noexcept {
  return std::string_view(program_invocation_short_name).find("osd") != std::string_view::npos;
}

bool is_monitor() noexcept {
  return std::string_view(program_invocation_short_name).find("ceph-mon") != std::string_view::npos;
}

bool names_our_types(std::string_view names) noexcept {
  // bitset_set<128, shard_id_t>, and mini_flat_map<shard_id_t, ceph::buffer::ptr, signed char>. A mangled
  // name may also stand for them by numbers, or be of another set: such a name proves nothing.
  constexpr std::string_view set = "10bitset_setILm", of_shards = "E10shard_id_tE", ours = "128",
                             map = "13mini_flat_mapI10shard_id_tN4ceph6buffer7v15_2_03ptrE", by_byte = "aE";
  for (auto at = names.find(set); at != names.npos; at = names.find(set, at + 1)) {
    const std::string_view rest = names.substr(at + set.size());
    const std::string_view bits = rest.substr(0, rest.find_first_not_of("0123456789"));
    if (bits != ours && rest.substr(bits.size()).starts_with(of_shards)) return false;
  }
  for (auto at = names.find(map); at != names.npos; at = names.find(map, at + 1))
    if (!names.substr(at + map.size()).starts_with(by_byte)) return false;
  return true;
}

Dialect host_dialect(std::string* why) noexcept try {
  const char* version = host_version();
  const Dialect dialect = dialect_of(version);
  if (dialect == Dialect::none)
    why->append("this plugin knows the releases 16 to 20 of Ceph, and this host is of version ")
        .append(version != nullptr ? version : "(none)");
  if (dialect != Dialect::none && !exists(&create_buffer)) {
    why->append("the buffers of this Ceph ").append(version).append(" are not those of 16 to 20.2");
    return Dialect::none;
  }
  if (dialect == Dialect::tentacle && !names_our_types(names_in_host())) {
    why->append("the sets and maps of shards of this Ceph ").append(version).append(" are not those of 20.2");
    return Dialect::none;
  }
  return dialect;
} catch (const std::bad_alloc&) {
  return Dialect::none;
}

bool is_daemon_log(const std::string& path) noexcept {
  std::string_view name = path;
  name.remove_prefix(name.rfind('/') + 1);
  if (!name.ends_with(".log")) return false;
  for (const std::string_view daemon : {"osd.", "mon."})
    if (const auto at = name.rfind(daemon); at != name.npos && (at == 0 || name[at - 1] == '-')) return true;
  return false;
}

void vtell(fmt::string_view format, fmt::format_args values) noexcept try {
  const std::string line = fmt::vformat(format, values);
  if (!is_news(line)) return;
  std::fprintf(stderr, "%s\n", line.c_str());
  const int log = daemon_log();
  if (log < 0) return;
  const std::string entry =
      fmt::format("{:%Y-%m-%dT%H:%M:%S%z} -1 {}\n", fmt::localtime(std::time(nullptr)), line);
  [[maybe_unused]] const auto written = ::write(log, entry.data(), entry.size());
} catch (const std::exception&) {
  // Memory, or /proc.
}

void set_rule_maker(::ceph::ErasureCodePlugin& isa) noexcept { rule_maker = &isa; }

int add_crush_rule(const std::string& name, CrushWrapper& crush, const PoolProfile& profile,
                   std::ostream* why) {
  std::ostream nowhere(nullptr);  // the host's functions write without looking
  std::ostream& says = why != nullptr ? *why : nowhere;
  const int domains = profile.crush_failure_domains, osds = profile.crush_osds_per_failure_domain;
  if (const auto error = rule_error(profile); !error.empty()) {
    says << error;
    return -EINVAL;
  }
  const auto& [root, domain, device_class] =
      std::tie(profile.crush_root, profile.crush_failure_domain, profile.crush_device_class);
  if (osds > 1) {
    if (exists(&CrushWrapper::add_indep_multi_osd_per_failure_domain_rule))
      return crush.add_indep_multi_osd_per_failure_domain_rule(name, root, domain, domains, osds,
                                                               device_class, &says);
  } else if (exists<RuleOfDomains>(&CrushWrapper::add_simple_rule)) {
    return crush.add_simple_rule(name, root, domain, domains, device_class, "indep", rule_type_erasure,
                                 &says);
  } else if (exists<Rule>(&CrushWrapper::add_simple_rule) && domains <= 0) {
    if (auto* isa = rule_maker.load(); isa != nullptr) return add_rule_of(*isa, name, crush, profile, says);
    return crush.add_simple_rule(name, root, domain, device_class, "indep", rule_type_erasure, &says);
  }
  says << "this host exports no function of CrushWrapper that makes a rule of crush-num-failure-domains="
       << domains << " and crush-osds-per-failure-domain=" << osds << " and that this plugin knows";
  return -ENOTSUP;
}

}  // namespace ec::ceph
