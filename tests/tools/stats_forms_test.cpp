// The stats of a page in each of their forms: every number once, and nothing of a hostile page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "plugin/codec/stats/stats.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace ec::test {
namespace {

using codec::Operation;
using codec::Stats;
using kernels::Status;
using nlohmann::json;
using tools::Json;

/// A page with a job of every kind.
std::unique_ptr<Stats> known_counts() {
  auto counts = std::make_unique<Stats>();
  auto& page = counts->page();
  page.backends = {{{'c', 'u', 'd', 'a'}, {'x', '8', '6'}}};
  for (int i = 0; i < 5; ++i)
    Stats::JobRecord(*counts, codec::this_thread(), Operation::decode, 1000, Stats::Timed::never).finished(1);
  Stats::JobRecord(*counts, codec::this_thread(), Operation::encode, 10, Stats::Timed::never)
      .fell_back(0, Status::hung);
  codec::Row& row = page.shards[3].rows[1][static_cast<std::size_t>(Operation::decode)];
  row.large.jobs = {1, 0, 2};
  row.large.jobs.back() = 1;
  row.large.nanoseconds = 5'000'000'000;
  counts->happened(codec::Event::plan_solved, 2);
  counts->happened(codec::Event::bytes_given_up, 30);
  counts->happened(codec::Event::isa_code, 8);
  counts->happened(codec::Event::jerasure_code, 2);
  counts->happened(codec::Event::own_code, 5);
  page.jobs_on_device = 9;
  page.device = {.state = static_cast<std::uint64_t>(kernels::DeviceState::latched),
                 .starts = 11,
                 .failed_starts = 12,
                 .latches = 13,
                 .staging_bytes = 17,
                 .given_up_bytes = 18,
                 .device_bytes = 19,
                 .shared_by_mps = 20};
  page.checks[0] = {70, 1, 6};
  page.arena = {100, 50, 60, 4, 3, 1};
  page.version = {'1', '.', '2'};
  page.interface = {'o', 'l', 'd'};
  page.since = 1'795'219'200;
  return counts;
}

Json named(const codec::StatsPage& page, pid_t pid, const char* name, unsigned copy = 0) {
  Json process{{"pid", pid}, {"copy", copy}, {"uid", 64045}, {"name", name}};
  process.update(tools::stats_from(page));
  return process;
}

/// Each series with its value. Whether the comments are right says promtool, in watching_test.py.
std::map<std::string, double> series_of(const std::string& text) {
  static const std::regex sample(
      R"re((ec_cuda_[a-z_]+(?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})?) ([0-9.e+-]+))re");
  std::map<std::string, double> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("# ")) continue;
    if (std::regex_match(line, match, sample))
      EXPECT_TRUE(series.emplace(match[1], std::stod(match[2])).second) << "twice: " << line;
    else
      ADD_FAILURE() << line;
  }
  return series;
}

TEST(StatsPrometheus, HasEverySeriesOnceAndItsValue) {
  const auto counts = known_counts();
  // Of several processes, and of one with two copies.
  tools::StatsOfHost all;
  all.processes = {named(counts->page(), 7, "osd.3"), named(Stats().page(), 8, "osd.3"),
                   named(counts->page(), 7, "osd.3", 1)};
  const auto text = tools::prometheus_of(all);
  EXPECT_TRUE(text.ends_with("\nec_cuda_left_out 0\n")) << text;
  const auto series = series_of(text);
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto at = series.find("ec_cuda_" + name + "{process=\"osd.3\",pid=\"7\",uid=\"64045\"" +
                                (labels.empty() ? "" : ",") + labels + "}");
    return at == series.end() ? -1.0 : at->second;
  };
  const std::string decode = R"(backend="x86",operation="decode")", large = decode + R"(,size="large")";
  const std::map<std::pair<std::string, std::string>, double> wanted{
      {{"info", R"(version="1.2",interface="old")"}, 1},
      {{"start_time_seconds", ""}, 1'795'219'200},
      {{"jobs_total", decode}, 5},
      {{"jobs_total", R"(backend="x86",operation="encode")"}, -1},  // never ran
      {{"source_bytes_total", decode}, 5000},
      {{"job_duration_seconds_bucket", large + R"(,le="1.25e-07")"}, 1},
      {{"job_duration_seconds_bucket", large + R"(,le="2.5e-07")"}, 1},
      {{"job_duration_seconds_bucket", large + R"(,le="5e-07")"}, 3},
      {{"job_duration_seconds_bucket", large + R"(,le="0.524288")"}, 3},
      {{"job_duration_seconds_bucket", large + R"(,le="+Inf")"}, 4},
      {{"job_duration_seconds_count", large}, 4},
      {{"job_duration_seconds_sum", large}, 5},
      {{"job_duration_seconds_count", decode + R"(,size="small")"}, -1},
      {{"decode_plans_total", R"(result="solved")"}, 2},
      {{"decode_plans_total", R"(result="found")"}, 0},
      {{"codes_total", R"(result="isa")"}, 8},
      {{"codes_total", R"(result="jerasure")"}, 2},
      {{"codes_total", R"(result="own")"}, 5},
      {{"validations_total", R"(backend="cuda",result="checked")"}, 70},
      {{"validations_total", R"(backend="cuda",result="mismatch")"}, 1},
      {{"validations_total", R"(backend="cuda",result="unchecked")"}, 6},
      {{"validations_total", R"(backend="x86",result="checked")"}, -1},  // nobody validates it
      {{"device_up", ""}, 0},
      {{"device_latched", ""}, 1},
      {{"jobs_on_device", ""}, 9},
      {{"device_starts_total", R"(result="up")"}, 11},
      {{"device_starts_total", R"(result="failed")"}, 12},
      {{"device_latches_total", ""}, 13},
      {{"staging_bytes", ""}, 17},
      {{"given_up_bytes", ""}, 48},
      {{"device_bytes", ""}, 19},
      {{"device_shared_by_mps", ""}, 20},
      {{"arena_bytes", ""}, 100},
      {{"arena_used_bytes", ""}, 50},
      {{"arena_peak_bytes", ""}, 60},
      {{"arena_blocks_total", R"(result="handed_out")"}, 4},
      {{"arena_blocks_total", R"(result="given_back")"}, 3},
      {{"arena_blocks_total", R"(result="refused")"}, 1}};
  for (const auto& [name, n] : wanted)
    EXPECT_EQ(value(name.first, name.second), n) << name.first << name.second;
  for (const std::string operation : {"encode", "decode", "update"})
    for (const std::string cause : {"unsupported", "busy", "fault", "hung"})
      EXPECT_EQ(value("fallbacks_total",
                      fmt::format(R"(backend="cuda",operation="{}",cause="{}")", operation, cause)),
                operation == "encode" && cause == "hung" ? 1 : 0);
  EXPECT_TRUE(series.contains(R"(ec_cuda_device_latched{process="osd.3",pid="7",uid="64045",copy="1"})"));
  EXPECT_EQ(series.at(R"(ec_cuda_arena_bytes{process="osd.3",pid="8",uid="64045"})"), 0);
}

TEST(StatsPrometheus, HasABound) {
  const auto counts = known_counts();
  tools::StatsOfHost host;
  constexpr unsigned many = 2000;
  for (unsigned pid = 1; pid <= many; ++pid)
    host.processes.push_back(named(counts->page(), static_cast<pid_t>(pid), "osd.3"));
  const auto text = tools::prometheus_of(host);
  EXPECT_GT(text.size(), tools::most_prometheus_bytes / 2);
  EXPECT_LE(text.size(), tools::most_prometheus_bytes + 100);
  EXPECT_NE(text.find(R"(ec_cuda_arena_bytes{process="osd.3",pid="1",)"), text.npos) << "the first ones stay";
  ASSERT_EQ(host.left_out.size(), 1u);
  EXPECT_EQ(host.left_out[0],
            fmt::format("{} process(es), for whose series there is no room", many - host.processes.size()));
  EXPECT_TRUE(text.ends_with("\nec_cuda_left_out 1\n"));
}

TEST(StatsJson, HasEveryNumber) {
  const Json found = named(known_counts()->page(), 7, "x");
  const json expected = json::parse(R"({
      "device": {"state": "latched", "jobs": 9, "starts": 11, "failed_starts": 12, "latches": 13,
                 "staging_bytes": 17, "given_up_bytes": 48, "device_bytes": 19, "shared_by_mps": 20},
      "arena": {"bytes": 100, "used_bytes": 50, "peak_bytes": 60, "handed_out": 4, "given_back": 3,
                "refused": 1},
      "validation": [{"backend": "cuda", "checked": 70, "mismatches": 1, "unchecked": 6}],
      "decode_plans": {"found": 0, "solved": 2}, "codes": {"isa": 8, "jerasure": 2, "own": 5}})");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(json(found[key]), value) << key;
  ASSERT_EQ(found["rows"].size(), 4u) << "those of the device, and what ran";
  EXPECT_EQ(json(found["rows"][3]["timed"]["large"]), json::parse(R"({"jobs": 4, "nanoseconds": 5000000000,
                            "at_most_us": {"0.125": 1, "0.5": 2, "more": 1}})"));
}

TEST(StatsForms, OfAHostilePageAreHarmless) {
  auto counts = known_counts();
  auto& page = counts->page();
  page.version.fill('\x1b');
  page.interface.fill('\n');
  page.backends[1] = {'x', '\n', '\xff', '"'};
  page.since = ~std::uint64_t{0};
  page.device.state = 99;
  tools::StatsOfHost host;
  host.processes.push_back(named(page, 7, "x"));
  const Json all = host.processes;
  for (const std::string& text : {tools::list_of(host), all.dump(), tools::prometheus_of(host)}) {
    for (const char c : text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << text;
  }
  EXPECT_EQ(all[0]["rows"][3]["backend"], "x??\"");
  page.backends[1] = page.backends[0];
  try {
    tools::stats_from(page);
    FAIL() << "two series would be the same";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "its stats name a back end twice");
  }
}

}  // namespace
}  // namespace ec::test
