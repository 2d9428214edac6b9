// Figures of rows, sums of processes, and the router against the best back end.
#include "bench/host/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <tuple>

#include "bench/common/stats.hpp"

namespace ec::bench {
namespace {

/// Whatever rows may differ in, except for the back end.
auto point(const HostRow& r) {
  return std::tuple(r.op, r.k, r.m, r.chunk_bytes, r.residence, r.processes, r.threads, r.gpus);
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

const std::vector<Column> host_columns{{"op", "op", -8},
                                       {"k", "k", 3},
                                       {"m", "m", 2},
                                       {"chunk B", "chunk_bytes", 9},
                                       {"memory", "residence", -8},
                                       {"procs", "processes", 5},
                                       {"threads", "threads", 7},
                                       {"backend", "backend", -7},
                                       {"chosen", "chosen", -9},
                                       {"source", "source_gbps", 8, 2},
                                       {"ceiling", "ceiling_gbps", 8, 2},
                                       {"ratio", "ratio_ceiling", 7, 3},
                                       {"us/call", "call_us", 10, 1},
                                       {"p50 us", "p50_us", 10, 1},
                                       {"p99 us", "p99_us", 10, 1},
                                       {"cpu s/GB", "cpu_s_per_gb", 8, 4},
                                       {"isal cpu", "isal_cpu_s_per_gb", 8, 4},
                                       {"noise %", "noise", 7, 1}};

nlohmann::json to_json(const HostRow& r) {
  nlohmann::json row{{"op", r.op},
                     {"k", r.k},
                     {"m", r.m},
                     {"chunk_bytes", r.chunk_bytes},
                     {"residence", r.residence},
                     {"processes", r.processes},
                     {"threads", r.threads},
                     {"gpus", r.gpus},
                     {"backend", r.backend},
                     {"chosen", r.chosen()},
                     {"chosen_share", r.chosen_share()},
                     {"source_gbps", r.source_gbps},
                     {"ceiling_gbps", r.ceiling_gbps},
                     {"ratio_ceiling", r.ratio_ceiling()},
                     {"call_us", r.call_us},
                     {"p50_us", r.p50_us},
                     {"p99_us", r.p99_us},
                     {"cpu_s_per_gb", r.cpu_s_per_gb},
                     {"isal_cpu_s_per_gb", nullptr},
                     {"verified", r.verified},
                     {"noise", r.noise}};
  if (r.isal_cpu_s_per_gb) row["isal_cpu_s_per_gb"] = *r.isal_cpu_s_per_gb;
  return row;
}

void fill_figures(HostRow& row) {
  const double gb = 1e-9 * static_cast<double>(row.k * row.chunk_bytes);
  std::vector<double> call_us;
  std::vector<double> cpu;
  for (const Sample& sample : row.samples) {
    call_us.push_back(1e6 * row.processes * row.threads / sample.calls_per_second);
    cpu.push_back(sample.cpu_seconds / gb);
  }
  row.call_us = median(call_us);
  row.noise = noise_percent(call_us);
  row.source_gbps = 1e6 * gb * row.processes * row.threads / row.call_us;
  row.cpu_s_per_gb = median(cpu);
  row.p50_us = row.calls.quantile_us(0.5);
  row.p99_us = row.calls.quantile_us(0.99);
}

HostRow merge_rows(std::span<const HostRow> members) {
  HostRow all = members.front();
  all.processes = static_cast<unsigned>(members.size());
  for (const HostRow& row : members.subspan(1)) {
    if (point(row) != point(members.front()) || row.backend != all.backend ||
        row.samples.size() != all.samples.size())
      throw std::runtime_error("the processes did not measure the same");
    all.verified = all.verified && row.verified;
    all.calls.add(row.calls);
    for (std::size_t i = 0; i < row.samples.size(); ++i) {
      Sample& sum = all.samples[i];
      const Sample& one = row.samples[i];
      const double both = sum.calls_per_second + one.calls_per_second;
      sum.cpu_seconds =
          (sum.cpu_seconds * sum.calls_per_second + one.cpu_seconds * one.calls_per_second) / both;
      sum.calls_per_second = both;
    }
    for (const RanCalls& ran : row.ran) {
      const auto same = std::ranges::find(all.ran, ran.backend, &RanCalls::backend);
      if (same == all.ran.end())
        all.ran.push_back(ran);
      else
        same->calls += ran.calls;
    }
  }
  std::ranges::stable_sort(all.ran, std::greater{}, &RanCalls::calls);
  if (all.verified) fill_figures(all);
  return all;
}

nlohmann::json raw_json(const HostRow& r) {
  nlohmann::json raw = to_json(r);
  raw["judges_router"] = r.judges_router;
  raw["calls"] = r.calls.to_json();
  raw["samples"] = nlohmann::json::array();
  for (const Sample& s : r.samples) raw["samples"].push_back({s.calls_per_second, s.cpu_seconds});
  raw["ran"] = nlohmann::json::array();
  for (const RanCalls& ran : r.ran) raw["ran"].push_back({ran.backend, ran.calls});
  return raw;
}

HostRow row_of_raw(const nlohmann::json& raw) {
  HostRow r{.op = raw.at("op"),
            .k = raw.at("k"),
            .m = raw.at("m"),
            .chunk_bytes = raw.at("chunk_bytes"),
            .residence = raw.at("residence"),
            .threads = raw.at("threads"),
            .gpus = raw.at("gpus"),
            .backend = raw.at("backend"),
            .ceiling_gbps = raw.at("ceiling_gbps"),
            .verified = raw.at("verified"),
            .judges_router = raw.at("judges_router"),
            .calls = CallTimes::from_json(raw.at("calls"))};
  for (const auto& sample : raw.at("samples")) r.samples.push_back({sample.at(0), sample.at(1)});
  for (const auto& ran : raw.at("ran")) r.ran.push_back({ran.at(0), ran.at(1)});
  return r;
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
    if (!row.verified || !row.judges_router) continue;
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
