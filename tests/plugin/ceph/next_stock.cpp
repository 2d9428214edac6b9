// A libec_isa.so or libec_jerasure.so of a release that never was: Debian's, with another version. Where
// EC_TEST_TABLE is "shifted", its objects have one function more than the interface that we know; where it is
// "other", its factory is of another type.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/plugin/ceph/shifted.hpp"

using ceph::ErasureCodeInterfaceRef;
using ceph::ErasureCodePluginRegistry;
using ceph::ErasureCodeProfile;

/// As Ceph calls its class, for tools/ceph-interface.
class ErasureCodeIsaDefault : public ec::test::Shifted {
 public:
  using Shifted::Shifted;
};

class ErasureCodePluginShifted : public ceph::ErasureCodePlugin {
 public:
  explicit ErasureCodePluginShifted(ceph::ErasureCodePlugin* inner) : inner_(inner) {}
  int factory(const std::string& directory, ErasureCodeProfile& profile,
              ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) override;

 private:
  ceph::ErasureCodePlugin* inner_;
};

int ErasureCodePluginShifted::factory(const std::string& directory, ErasureCodeProfile& profile,
                                      ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) {
  ErasureCodeInterfaceRef made;
  if (const int error = inner_->factory(directory, profile, &made, ss)) return error;
  *erasure_code = ec::test::behind_classic(std::make_shared<ErasureCodeIsaDefault>(made));
  return 0;
}

/// Its table has the same slots.
class ErasureCodePluginOther {
 public:
  virtual ~ErasureCodePluginOther() = default;
  virtual int factory(int) { return -EIO; }
  void* library = nullptr;
};

extern "C" const char* __erasure_code_version() { return std::getenv("EC_TEST_STOCK_RELEASE"); }

extern "C" int __erasure_code_init(char* name, char* directory) {
  const char* set = std::getenv("EC_TEST_TABLE");
  const std::string_view table = set == nullptr ? "" : set;
  auto& registry = ErasureCodePluginRegistry::singleton;
  if (table == "other")
    return registry.add(name, reinterpret_cast<ceph::ErasureCodePlugin*>(new ErasureCodePluginOther));
  void* debians = dlopen(EC_STOCK_FILE, RTLD_NOW);
  if (debians == nullptr) return -EIO;
  const auto init = reinterpret_cast<int (*)(char*, char*)>(dlsym(debians, "__erasure_code_init"));
  if (table != "shifted") return init(name, directory);
  std::string inner = std::string(name) + " inside";
  if (const int error = init(inner.data(), directory)) return error;
  return registry.add(name, new ErasureCodePluginShifted(registry.get(inner)));
}
