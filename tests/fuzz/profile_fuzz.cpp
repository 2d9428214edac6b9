// Profiles: lines KEY=VALUE. Whatever is taken can be coded, and is taken again as it was completed. Which
// values of stripe_unit are taken, tests/project/bad_input_test.cpp tries all.
#include "plugin/ceph/profile.hpp"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string>

#include "plugin/codec/settings/settings.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

using Profile = ::ceph::ErasureCodeProfile;

/// The shapes in which any k chunks suffice, stated here once more.
bool can_be_coded(const ceph::PoolProfile& p) {
  if (p.k < 2 || p.m < 1 || p.k + p.m > 255) return false;
  if (p.technique == gf::Technique::jerasure_reed_sol_r6_op) return p.m == 2;
  return p.technique != gf::Technique::reed_sol_van || p.m <= 3 || p.k <= 3 || (p.m == 4 && p.k <= 21) ||
         (p.k == 4 && p.m <= 21) || (p.k == 5 && p.m <= 5);
}

void check_mapping(const ceph::PoolProfile& p, const std::string& text) {
  expect(p.mapping.empty() == text.empty(), "a mapping where there is a text");
  if (text.empty()) return;
  std::vector<int> shards = p.mapping;
  for (unsigned c = 0; c < shards.size(); ++c)
    expect((text.at(static_cast<std::size_t>(shards[c])) == 'D') == (c < p.k), "D for data, at {}",
           shards[c]);
  std::ranges::sort(shards);
  std::vector<int> all(p.k + p.m);
  std::iota(all.begin(), all.end(), 0);
  expect(shards == all, "each shard once");
}

void check_taken(const ceph::PoolProfile& p, const Profile& given, Profile& completed) {
  const auto value = [&](const char* key) {
    const auto at = given.find(key);
    return at == given.end() ? std::string() : at->second;
  };
  expect(can_be_coded(p), "{}+{} {} is refused", p.k, p.m, gf::name(p.technique));
  expect(std::stoul(completed.at("k")) == p.k && std::stoul(completed.at("m")) == p.m, "k and m as written");
  expect(gf::name(p.technique) == completed.at("technique"), "the technique as written");
  expect(codec::name(p.backend) == completed.at("backend"), "the back end as written");
  expect(p.crush_root == completed.at("crush-root"), "the root as written");
  check_mapping(p, value("mapping"));
  for (const auto& [key, text] : given)
    expect(text.empty() || completed.at(key) == text, "{}={} is kept", key, text);
  // The host compares the completed profile with the object's own.
  Profile again = completed;
  const auto second = ceph::parse_profile(ceph::Role::own, again, 20);
  expect(again == completed, "a completed profile is complete");
  expect(second.k == p.k && second.m == p.m && second.mapping == p.mapping, "and means the same");
}

void check_refused(const codec::SetupError& error, const Profile& given) {
  const std::string_view text = error.what();
  expect(error.code() == EINVAL || error.code() == ENOENT, "EINVAL or ENOENT and not {}", error.code());
  const bool names_one = std::ranges::any_of(
      given, [&](const auto& entry) { return text.find(entry.first + "=") != std::string_view::npos; });
  expect(names_one, "a refusal that names a key, not: {}", text);
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  Profile given;
  // Up to a zero byte, where a text of the command line ends.
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest = rest.substr(0, rest.find('\0'));
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (const auto equals = line.find('='); equals != std::string_view::npos)
      given[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  Profile completed = given;
  try {
    const auto parsed = ec::ceph::parse_profile(ec::ceph::Role::own, completed, 20);
    check_taken(parsed, given, completed);
  } catch (const ec::codec::SetupError& error) {
    check_refused(error, given);
  }
  return 0;
}
