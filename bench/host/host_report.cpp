#include "bench/host/host_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "bench/common/stats.hpp"

namespace ec::bench {
namespace {

constexpr const char* columns = "{:<8} {:>3} {:>2} {:>9} {:<8} {:>7} {:<7} {:<9} ";
constexpr const char* figures = "{:>8} {:>8} {:>7} {:>10} {:>8} {:>8} {:>7}";

/// Whatever rows may differ in, except for the back end.
auto point(const HostRow& r) {
  return std::tuple(r.op, r.k, r.m, r.chunk_bytes, r.residence, r.threads, r.gpus);
}

struct Contest {
  const HostRow* automatic = nullptr;
  const HostRow* best = nullptr;  ///< of the forced ones
};

}  // namespace

std::string HostRow::chosen() const {
  std::string names;
  for (const RanCalls& each : ran) names += (names.empty() ? "" : "+") + each.backend;
  return names;
}

double HostRow::chosen_share() const {
  std::uint64_t all = 0;
  for (const RanCalls& each : ran) all += each.calls;
  return all == 0 ? 0 : static_cast<double>(ran.front().calls) / static_cast<double>(all);
}

std::string host_table_head() {
  return fmt::format(fmt::runtime(columns), "op", "k", "m", "chunk B", "memory", "threads", "backend",
                     "chosen") +
         fmt::format(fmt::runtime(figures), "source", "ceiling", "ratio", "us/call", "cpu s/GB", "isal cpu",
                     "noise %");
}

std::string host_table_row(const HostRow& r) {
  const auto left = fmt::format(fmt::runtime(columns), r.op, r.k, r.m, r.chunk_bytes, r.residence, r.threads,
                                r.backend, r.chosen());
  if (!r.verified) return left + "WRONG BYTES";
  return left + fmt::format(fmt::runtime(figures), fmt::format("{:.2f}", r.source_gbps),
                            fmt::format("{:.2f}", r.ceiling_gbps), fmt::format("{:.3f}", r.ratio_ceiling()),
                            fmt::format("{:.1f}", r.call_us), fmt::format("{:.4f}", r.cpu_s_per_gb),
                            r.isal_cpu_s_per_gb ? fmt::format("{:.4f}", *r.isal_cpu_s_per_gb) : "-",
                            fmt::format("{:.1f}", r.noise));
}

nlohmann::json to_json(const HostRow& r) {
  nlohmann::json row{{"op", r.op},
                     {"k", r.k},
                     {"m", r.m},
                     {"chunk_bytes", r.chunk_bytes},
                     {"residence", r.residence},
                     {"threads", r.threads},
                     {"gpus", r.gpus},
                     {"backend", r.backend},
                     {"chosen", r.chosen()},
                     {"chosen_share", r.chosen_share()},
                     {"source_gbps", r.source_gbps},
                     {"ceiling_gbps", r.ceiling_gbps},
                     {"ratio_ceiling", r.ratio_ceiling()},
                     {"call_us", r.call_us},
                     {"cpu_s_per_gb", r.cpu_s_per_gb},
                     {"isal_cpu_s_per_gb", nullptr},
                     {"verified", r.verified},
                     {"noise", r.noise}};
  if (r.isal_cpu_s_per_gb) row["isal_cpu_s_per_gb"] = *r.isal_cpu_s_per_gb;
  return row;
}

void set_isal_cpu(std::vector<HostRow>& rows) {
  for (HostRow& row : rows)
    for (const HostRow& isal : rows)
      if (isal.backend == "isal" && isal.verified && point(isal) == point(row))
        row.isal_cpu_s_per_gb = isal.cpu_s_per_gb;
}

std::optional<RouterWorth> router_worth(const std::vector<HostRow>& rows) {
  std::map<decltype(point(rows.front())), Contest> contests;
  for (const HostRow& row : rows) {
    if (!row.verified) continue;
    Contest& contest = contests[point(row)];
    if (row.backend == "auto")
      contest.automatic = &row;
    else if (contest.best == nullptr || row.call_us < contest.best->call_us)
      contest.best = &row;
  }
  std::vector<double> ratios;
  RouterWorth worth;
  for (const auto& [where, contest] : contests) {
    if (contest.automatic == nullptr || contest.best == nullptr) continue;
    ratios.push_back(contest.automatic->call_us / contest.best->call_us);
    if (ratios.back() <= worth.worst) continue;
    worth.worst = ratios.back();
    worth.at_worst = *contest.automatic;
    worth.best_at_worst = contest.best->backend;
  }
  if (ratios.empty()) return std::nullopt;
  worth.points = ratios.size();
  worth.median = median(ratios);
  return worth;
}

std::string worth_line(const RouterWorth& w) {
  const HostRow& r = w.at_worst;
  return fmt::format(
      "router: time of auto over that of the best forced back end: median {:.3f} of {} points, worst {:.3f} "
      "at {} "
      "{}+{}, chunks of {} bytes, {}, threads {}: chose {}, best {}",
      w.median, w.points, w.worst, r.op, r.k, r.m, r.chunk_bytes, r.residence, r.threads, r.chosen(),
      w.best_at_worst);
}

}  // namespace ec::bench
