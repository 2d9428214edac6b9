// The common part of Ceph's own plugins and ours.
#include "plugin/ceph/portable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ec::ceph {
namespace {

using gf::Technique;

// The limits of isa with reed_sol_van; from Ceph 21 on it codes other shapes by another matrix.
constexpr unsigned isa_most_data = 32, isa_most_coding = 4, isa_most_data_with_that = 21;
/// The limit of isa from Ceph 20 on, with any technique.
constexpr unsigned isa_most_coding_of_all = 32;

}  // namespace

std::string isa_shape_error(Technique technique, unsigned k, unsigned m) {
  if (technique == Technique::cauchy)
    return m <= isa_most_coding_of_all ? ""
                                       : fmt::format("m={} must be at most {}", m, isa_most_coding_of_all);
  if (k > isa_most_data)
    return fmt::format("k={} must be at most {} with technique=reed_sol_van", k, isa_most_data);
  if (m > isa_most_coding)
    return fmt::format("m={} must be at most {} with technique=reed_sol_van", m, isa_most_coding);
  if (m == isa_most_coding && k > isa_most_data_with_that)
    return fmt::format("k={} must be at most {} with technique=reed_sol_van and m={}", k,
                       isa_most_data_with_that, m);
  return {};
}

bool moves_chunks(std::string_view mapping) noexcept {
  return mapping.find('D', std::min(mapping.find_first_not_of('D'), mapping.size())) != mapping.npos;
}

Portability portability(const std::map<std::string, std::string>& profile) {
  const auto value = [&](const char* key, std::string_view fallback) {
    const auto at = profile.find(key);
    return at == profile.end() || at->second.empty() ? fallback : std::string_view(at->second);
  };
  const auto no = [](std::string why) { return Portability{"", "", std::move(why)}; };

  const std::string_view name = value("technique", "reed_sol_van");
  const auto technique = gf::parse_technique(name);
  if (!technique)
    return no(fmt::format("technique={} must be one of {}", name, fmt::join(gf::technique_names, ", ")));
  unsigned k = 0, m = 0;
  for (auto [key, text, number] : {std::tuple{"k", value("k", "7"), &k}, {"m", value("m", "3"), &m}}) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, *number);
    if (error != std::errc{} || rest != end)
      return no(fmt::format("{}={} must be a whole number", key, text));
  }
  std::string error = gf::shape_error(*technique, k, m);
  const bool is_isas = *technique == Technique::reed_sol_van || *technique == Technique::cauchy;
  if (error.empty() && is_isas) error = isa_shape_error(*technique, k, m);
  if (error.empty() && k + m > most_pool_shards)
    error = fmt::format("k={} and m={}: k+m must be at most {}", k, m, most_pool_shards);
  if (!error.empty()) return no(std::move(error));
  if (const auto mapping = value("mapping", ""); moves_chunks(mapping))
    return no(fmt::format("mapping={} must be none, or one that moves no chunk", mapping));
  if (is_isas) return {"isa", std::string(name), ""};
  return {"jerasure", std::string(name.substr(std::string_view("jerasure_").size())), ""};
}

}  // namespace ec::ceph
