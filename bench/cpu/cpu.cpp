#include "bench/cpu/cpu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "bench/common/options.hpp"
#include "bench/common/report.hpp"
#include "bench/common/run.hpp"
#include "bench/cpu/cpu_ceph.hpp"
#include "bench/cpu/cpu_report.hpp"
#include "bench/cpu/cpu_road.hpp"
#include "bench/cpu/solve_road.hpp"

namespace ec::bench {
namespace {

namespace po = boost::program_options;

using Shapes = std::vector<std::pair<unsigned, unsigned>>;

const Shapes narrow{{4, 2}, {8, 3}, {8, 4}, {10, 4}};
const Shapes wide{{16, 4}, {20, 4}, {32, 8}, {64, 16}};

/// Cases that answer one question.
struct Section {
  std::string name;
  std::vector<std::string> ops;
  Shapes shapes;
  std::size_t chunk_bytes;
  bool cold;
  unsigned threads;
  std::vector<Layout> layouts;
};

std::vector<Section> sections() {
  Shapes all = narrow;
  all.insert(all.end(), wide.begin(), wide.end());
  const std::vector<Layout> both{Layout::contiguous, Layout::scattered};
  const std::vector<Layout> contiguous{Layout::contiguous};
  return {{"cold", {"encode"}, all, 1 << 20, true, 1, both},
          {"warm", {"encode"}, all, 4096, false, 1, contiguous},
          {"middle", {"encode"}, narrow, 16384, false, 1, contiguous},
          {"decode", {"encode", "decode", "decode-new", "decode-miss"}, all, 65536, false, 1, contiguous},
          {"solve", {"solve"}, all, 0, false, 1, contiguous},
          {"threads", {"encode"}, {{10, 4}}, 1 << 20, true, 2, both}};
}

/// Not in the table: a program of its own measures it.
constexpr const char* ceph_section = "ceph";

struct CpuOptions {
  std::vector<std::string> sections;
  std::vector<std::string> isal;
  std::size_t cold_bytes = 0;
  Pace pace;
  std::string json_file;
  std::string help;
};

CpuOptions parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> every;
  for (const auto& s : sections()) every.push_back(s.name);
  every.emplace_back(ceph_section);
  unsigned rounds = 0;
  unsigned sample_ms = 0;
  unsigned cold_mib = 0;
  std::string clock;
  CpuOptions o;
  po::options_description known("ec_bench cpu [options]", 110, 80);
  const auto listed = [](auto& to) { return po::value(&to)->multitoken(); };
  known.add_options()("sections", listed(o.sections),
                      fmt::format("of {}; default all", fmt::join(every, ", ")).c_str())(
      "isal", po::value(&o.isal)->composing(), "another libisal.so to load and compare; may be repeated")(
      "rounds", po::value(&rounds)->default_value(31), "samples of each contestant, taken in turn")(
      "sample-ms", po::value(&sample_ms)->default_value(2), "shortest time of a sample")(
      "cold-mib",
      po::value(&cold_mib)->default_value(
          static_cast<unsigned>(std::max<std::size_t>(256, 3 * (last_level_cache_bytes() >> 20)))),
      "source MiB in the pool of a cold run")(
      "clock", po::value(&clock)->default_value("wall"),
      "of one thread: wall, or cpu on a machine that others use too; several threads: always wall")(
      "json", po::value(&o.json_file), "write the report to this file too")("help", "this text");
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(known).positional({}).run(), given);
    po::notify(given);
  } catch (const po::error& e) {
    throw UsageError(fmt::format("{}; see ec_bench cpu --help", e.what()));
  }
  if (given.contains("help")) o.help = fmt::format("{}", (std::ostringstream() << known).str());
  for (const auto& name : o.sections)
    if (std::ranges::find(every, name) == every.end())
      throw UsageError(fmt::format("--sections {}: must be of {}", name, fmt::join(every, ", ")));
  if (o.sections.empty()) o.sections = every;
  if (rounds == 0) throw UsageError("--rounds 0: must be at least 1");
  if (clock != "wall" && clock != "cpu")
    throw UsageError(fmt::format("--clock {}: must be wall or cpu", clock));
  o.cold_bytes = std::size_t{std::max(cold_mib, 1u)} << 20;
  o.pace = {rounds, 1e-3 * sample_ms, clock == "cpu" ? ClockKind::cpu : ClockKind::wall};
  return o;
}

Case make_case(const Section& section, const std::string& op, unsigned k, unsigned m,
               std::size_t cold_bytes) {
  Case c{.op = op, .k = k, .m = m};
  // Shapes that the Vandermonde matrix does not have.
  if (!gf::shape_error(c.technique, k, m).empty()) c.technique = gf::Technique::cauchy;
  c.erasures = op == "encode" ? 0 : m;
  c.chunk_bytes = section.chunk_bytes;
  c.object_bytes = k * section.chunk_bytes;
  c.threads = section.threads;
  c.cold = section.cold;
  const std::size_t stripes = section.cold ? cold_bytes / (c.object_bytes * c.threads) : 1;
  c.stripes = std::max<std::size_t>(stripes, section.cold ? 2 : 1) * c.threads;
  return c;
}

int run(const CpuOptions& o, const std::vector<std::string>& arguments) {
  CpuRoad chunks(o.isal);
  SolveRoad no_chunks;
  const Header header = make_header("none", fmt::format("ec_bench cpu {}", fmt::join(arguments, " ")),
                                    {{"cold pool", fmt::format("{} MiB of sources", o.cold_bytes >> 20)},
                                     {"clock", o.pace.clock == ClockKind::cpu ? "cpu" : "wall"}});
  fmt::print("{}\n{}\n", header_text(header), cpu_table_head());
  std::vector<CpuRow> report;
  bool sound = true;
  for (const Section& section : sections()) {
    if (std::ranges::find(o.sections, section.name) == o.sections.end()) continue;
    for (const auto& [k, m] : section.shapes)
      for (const Layout layout : section.layouts)
        for (const auto& op : section.ops) {
          chunks.set_layout(layout);
          Road& road = op == "solve" ? static_cast<Road&>(no_chunks) : chunks;
          const Case c = make_case(section, op, k, m, o.cold_bytes);
          Pace pace = o.pace;
          if (c.threads > 1) pace.clock = ClockKind::wall;
          for (CpuRow& row : cpu_rows(measure(road, c, pace), name(layout))) {
            fmt::print("{}\n", cpu_table_row(row));
            std::fflush(stdout);
            sound = sound && row.verified;
            report.push_back(std::move(row));
          }
        }
  }
  nlohmann::json document = to_json(header, report);
  if (std::ranges::find(o.sections, ceph_section) != o.sections.end()) {
    const auto rows = ceph_rows({"--rounds", fmt::format("{}", o.pace.rounds), "--sample-ms",
                                 fmt::format("{:.0f}", 1e3 * o.pace.sample_seconds), "--clock",
                                 o.pace.clock == ClockKind::cpu ? "cpu" : "wall"});
    document["rows"].insert(document["rows"].end(), rows.begin(), rows.end());
  }
  if (!o.json_file.empty()) {
    std::ofstream json(o.json_file);
    json << document.dump(1) << '\n';
    if (!json.flush()) throw std::runtime_error("cannot write " + o.json_file);
  }
  return sound ? 0 : 1;
}

}  // namespace

int run_cpu(const std::vector<std::string>& arguments) {
  return exit_status_of([&] {
    const CpuOptions options = parse(arguments);
    if (options.help.empty()) return run(options, arguments);
    fmt::print("{}", options.help);
    return 0;
  });
}

}  // namespace ec::bench
