// Symbols of Ceph's daemons, by their mangled names.
#include "plugin/ceph/host.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <ostream>

#include "plugin/ceph/role.hpp"

namespace ec::ceph {
namespace {

constexpr int first_classic_release = 16;
constexpr int last_classic_release = 19;
constexpr int tentacle_release = 20;

/// pg_pool_t::TYPE_ERASURE
constexpr int rule_type_erasure = 3;

// CrushWrapper::add_simple_rule(name, root, failure domain, device class, mode, rule type, err), to Ceph 18.
// Member functions are called here as functions whose first argument is the object, the way in which the
// Itanium C++ ABI calls a non-virtual function.
constexpr const char* add_simple_rule_18 =
    "_ZN12CrushWrapper15add_simple_ruleENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES5_S5_S5_S5_iPSo";
using AddSimpleRule18 = int (*)(CrushWrapper*, std::string, std::string, std::string, std::string,
                                std::string, int, std::ostream*);

// The same with the number of failure domains after the failure domain, from Ceph 19.
constexpr const char* add_simple_rule_19 =
    "_ZN12CrushWrapper15add_simple_ruleENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES5_S5_iS5_S5_"
    "iPSo";
using AddSimpleRule19 = int (*)(CrushWrapper*, std::string, std::string, std::string, int, std::string,
                                std::string, int, std::ostream*);

// CrushWrapper::add_indep_multi_osd_per_failure_domain_rule(name, root, failure domain, failure domains, OSDs
// in each, device class, err), from Ceph 19.
constexpr const char* add_rule_of_several_19 =
    "_ZN12CrushWrapper43add_indep_multi_osd_per_failure_domain_ruleENSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEE"
    "S5_S5_iiS5_PSo";
using AddRuleOfSeveral19 = int (*)(CrushWrapper*, std::string, std::string, std::string, int, int,
                                   std::string, std::ostream*);

template <class Function>
Function find(const char* symbol) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, symbol));
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

}  // namespace

const char* host_version() noexcept {
  const auto version = find<const char* (*)()>("_Z19ceph_version_to_strv");
  return version == nullptr ? nullptr : version();
}

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
  if (dialect == Dialect::tentacle && !names_our_types(names_in_host())) {
    why->append("the sets and maps of shards of this Ceph ").append(version).append(" are not those of 20.2");
    return Dialect::none;
  }
  return dialect;
} catch (const std::bad_alloc&) {
  return Dialect::none;
}

int add_crush_rule(const std::string& name, CrushWrapper& crush, const PoolProfile& profile,
                   std::ostream* why) {
  std::ostream nowhere(nullptr);  // the host's functions write without looking
  std::ostream& says = why != nullptr ? *why : nowhere;
  const int domains = profile.crush_failure_domains, osds = profile.crush_osds_per_failure_domain;
  if (const auto error = rule_error(profile); !error.empty()) {
    says << error;
    return -EINVAL;
  }
  if (osds > 1) {
    if (const auto add = find<AddRuleOfSeveral19>(add_rule_of_several_19))
      return add(&crush, name, profile.crush_root, profile.crush_failure_domain, domains, osds,
                 profile.crush_device_class, &says);
  } else if (const auto add = find<AddSimpleRule19>(add_simple_rule_19)) {
    return add(&crush, name, profile.crush_root, profile.crush_failure_domain, domains,
               profile.crush_device_class, "indep", rule_type_erasure, &says);
  } else if (const auto add_18 = find<AddSimpleRule18>(add_simple_rule_18);
             add_18 != nullptr && domains <= 0) {
    return add_18(&crush, name, profile.crush_root, profile.crush_failure_domain, profile.crush_device_class,
                  "indep", rule_type_erasure, &says);
  }
  says << "this host exports no function of CrushWrapper that makes a rule of crush-num-failure-domains="
       << domains << " and crush-osds-per-failure-domain=" << osds << " and that this plugin knows";
  return -ENOTSUP;
}

}  // namespace ec::ceph
