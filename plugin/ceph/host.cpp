// Symbols of Ceph's daemons, by their mangled names.
#include "plugin/ceph/host.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ostream>

namespace ec::ceph {
namespace {

constexpr int first_classic_release = 16;
constexpr int last_classic_release = 19;

/// pg_pool_t::TYPE_ERASURE
constexpr int rule_type_erasure = 3;
constexpr int any_number_of_domains = -1;

// CrushWrapper::add_simple_rule(name, root, failure domain, device class, mode, rule type, err), to Ceph 18.
// Member functions are called here as functions whose first argument is the object, which is how the
// Itanium C++ ABI calls a non-virtual one.
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

template <class Function>
Function find(const char* symbol) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, symbol));
}

}  // namespace

const char* host_version() noexcept {
  const auto version = find<const char* (*)()>("_Z19ceph_version_to_strv");
  return version == nullptr ? nullptr : version();
}

bool speaks_classic(const char* version) noexcept {
  if (version == nullptr) return false;
  int release = 0;
  const char* end = version + std::strlen(version);
  const auto [rest, error] = std::from_chars(version, end, release);
  return error == std::errc{} && rest != end && *rest == '.' && release >= first_classic_release &&
         release <= last_classic_release;
}

int add_crush_rule(const std::string& name, CrushWrapper& crush, const PoolProfile& profile,
                   std::ostream* why) {
  if (const auto add = find<AddSimpleRule18>(add_simple_rule_18))
    return add(&crush, name, profile.crush_root, profile.crush_failure_domain, profile.crush_device_class,
               "indep", rule_type_erasure, why);
  if (const auto add = find<AddSimpleRule19>(add_simple_rule_19))
    return add(&crush, name, profile.crush_root, profile.crush_failure_domain, any_number_of_domains,
               profile.crush_device_class, "indep", rule_type_erasure, why);
  if (why != nullptr) *why << "this host exports no CrushWrapper::add_simple_rule that plugin=cuda knows";
  return -ENOTSUP;
}

}  // namespace ec::ceph
