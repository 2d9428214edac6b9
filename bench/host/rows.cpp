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

std::uint64_t calls_of(const HostRow& row) {
  std::uint64_t all = 0;
  for (const RanCalls& each : row.ran) all += each.calls;
  return all;
}

}  // namespace

std::vector<double> HostRow::call_us() const {
  std::vector<double> list;
  for (const Sample& sample : samples) list.push_back(1e6 * processes * threads / sample.calls_per_second);
  return list;
}

double HostRow::cpu_s_per_gb() const {
  std::vector<double> list;
  for (const Sample& sample : samples) list.push_back(sample.cpu_seconds / source_gb());
  return median(list);
}

std::string HostRow::chosen() const {
  std::string names;
  for (const RanCalls& each : ran) names += (names.empty() ? "" : "+") + each.backend;
  return names;
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
  return all;
}

Row report_row(const HostRow& r, std::span<const HostRow> all) {
  Row row{{"op", r.op},
          {"k", r.k},
          {"m", r.m},
          {"chunk_bytes", r.chunk_bytes},
          {"residence", r.residence},
          {"processes", r.processes},
          {"threads", r.threads},
          {"gpus", r.gpus},
          {"backend", r.backend},
          {"chosen", r.chosen()},
          {"verified", r.verified}};
  for (const char* figure : {"chosen_share", "source_gbps", "ceiling_gbps", "ratio_ceiling", "call_us",
                             "p50_us", "p99_us", "cpu_s_per_gb", "isal_cpu_s_per_gb", "noise"})
    row[figure] = nullptr;
  if (!r.verified) return row;
  const auto call_us = r.call_us();
  const double gbps = 1e6 * r.source_gb() * r.processes * r.threads / median(call_us);
  row["chosen_share"] = static_cast<double>(r.ran.front().calls) / static_cast<double>(calls_of(r));
  row["source_gbps"] = gbps;
  row["ceiling_gbps"] = r.ceiling_gbps;
  row["ratio_ceiling"] = r.ceiling_gbps > 0 ? gbps / r.ceiling_gbps : 0;
  row["call_us"] = median(call_us);
  row["p50_us"] = r.calls.quantile_us(0.5);
  row["p99_us"] = r.calls.quantile_us(0.99);
  row["cpu_s_per_gb"] = r.cpu_s_per_gb();
  for (const HostRow& isal : all)
    if (isal.backend == "isal" && isal.verified && point(isal) == point(r))
      row["isal_cpu_s_per_gb"] = isal.cpu_s_per_gb();
  row["noise"] = noise_percent(call_us);
  return row;
}

std::optional<RouterWorth> router_worth(std::span<const HostRow> rows) {
  // Of auto and of the best one that was forced, by the place in `rows`.
  using Contest = std::pair<const HostRow*, const HostRow*>;
  const auto time = [](const HostRow* row) { return median(row->call_us()); };
  std::map<decltype(point(rows.front())), Contest> contests;
  for (const HostRow& row : rows) {
    if (!row.verified || !row.judges_router) continue;
    auto& [automatic, best] = contests[point(row)];
    if (row.backend == "auto")
      automatic = &row;
    else if (best == nullptr || time(&row) < time(best))
      best = &row;
  }
  std::vector<double> ratios;
  RouterWorth worth;
  for (const auto& [where, contest] : contests) {
    const auto [automatic, best] = contest;
    if (automatic == nullptr || best == nullptr) continue;
    ratios.push_back(time(automatic) / time(best));
    if (ratios.back() <= worth.worst) continue;
    worth.worst = ratios.back();
    worth.at_worst =
        fmt::format("{} {}+{}, chunks of {} bytes, {}, threads {}: chose {}, best {}", automatic->op,
                    automatic->k, automatic->m, automatic->chunk_bytes, automatic->residence,
                    automatic->threads, automatic->chosen(), best->backend);
  }
  if (ratios.empty()) return std::nullopt;
  worth.points = ratios.size();
  worth.median = median(ratios);
  return worth;
}

}  // namespace ec::bench
