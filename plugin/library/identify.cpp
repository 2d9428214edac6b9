#include "plugin/library/identify.hpp"

#include "gf/identify.hpp"
#include "plugin/library/refusal.hpp"

namespace ec::library {

std::string identify(std::span<const ec_source> shards, std::size_t bytes) {
  std::vector<const std::uint8_t*> places;
  for (const auto& shard : shards) {
    if (shard.residence != EC_PAGEABLE && shard.residence != EC_PINNED)
      refuse("shards[{}] has residence {}; allowed are 0 (pageable), 1 (pinned)", places.size(),
             shard.residence);
    if (shard.data == nullptr && bytes != 0) refuse("shards[{}] is null", places.size());
    places.push_back(static_cast<const std::uint8_t*>(shard.data));
  }
  const gf::Identity found = gf::identify(places, bytes);
  std::vector<std::string> fits, checks;
  for (const auto& fit : found.fits)
    fits.push_back(fmt::format(R"({{"dialect": "{}", "m": {}, "order": [{}], "sole": {}}})", fit.dialect,
                               fit.m, fmt::join(fit.order, ", "), fit.is_sole));
  for (unsigned r = 0; r < found.checks.rows(); ++r)
    checks.push_back(fmt::format("[{}]", fmt::join(found.checks.row(r), ", ")));
  std::string untold;
  for (const auto& reason : found.untold)
    untold += fmt::format("{}\"{}\"", untold.empty() ? "" : ", ", reason);
  return fmt::format(
      R"({{"k": {}, "columns": {}, "obeying": {}, "first_bad": {}, "damaged": [{}], "outside": [{}], )"
      R"("fits": [{}], "cannot_tell": [{}], "checks": [{}]}})",
      found.k, found.columns, found.obeying, found.first_bad, fmt::join(found.damaged, ", "),
      fmt::join(found.outside, ", "), fmt::join(fits, ", "), untold, fmt::join(checks, ", "));
}

}  // namespace ec::library
