#include "bench/host/host_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <sstream>
#include <thread>
#include <tuple>

#include "bench/common/options.hpp"

namespace ec::bench {
namespace {

namespace po = boost::program_options;
using kernels::Residence;

constexpr std::size_t K = 1024;
constexpr std::size_t M = 1024 * K;
constexpr std::size_t chunk_granule = 64;

using Shapes = std::vector<std::pair<unsigned, unsigned>>;

/// Cases of one kind in a section.
struct Group {
  std::string section;
  std::vector<std::string> ops;
  Shapes shapes;
  std::vector<std::size_t> chunks;
  std::vector<Residence> residences;
  std::vector<unsigned> threads;
  bool isal_on_all_cores;
  bool fresh_ceiling;
};

const std::vector<std::string> every_op{"encode", "decode-1", "decode-m"};
const std::vector<std::size_t> every_size{4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M};
const std::vector<std::string> every_backend{"cuda", "x86", "isal", "auto"};

std::vector<Group> groups() {
  const std::vector pinned{Residence::pinned};
  return {{"pinned", every_op, {{10, 4}}, {64 * M}, pinned, {1}, true, true},
          {"pinned", every_op, {{8, 3}}, {4 * K, 64 * K, 256 * K, M}, pinned, {1, 8}, true, true},
          {"device", every_op, {{10, 4}}, {64 * M}, {Residence::device}, {1}, false, true},
          {"sizes", {"encode"}, {{10, 4}}, every_size, pinned, {1}, true, true},
          {"router",
           {"encode"},
           {{4, 2}, {8, 3}, {10, 4}, {32, 8}},
           every_size,
           {Residence::pageable, Residence::pinned},
           {1, 8},
           false,
           false}};
}

std::vector<std::string> every_section() {
  std::vector<std::string> names;
  for (const Group& g : groups())
    if (std::ranges::find(names, g.section) == names.end()) names.push_back(g.section);
  return names;
}

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

/// Host memory is out of reach of the CPU back ends when it is the device's.
bool can_take_part(const std::string& backend, Residence residence) {
  return residence != Residence::device || backend == "cuda" || backend == "auto";
}

std::vector<HostEntrant> entrants_of(const Group& group, Residence residence,
                                     const std::vector<std::string>& backends) {
  std::vector<HostEntrant> list;
  for (const auto& backend : backends)
    for (const unsigned threads : group.threads)
      if (can_take_part(backend, residence)) add_once(list, {backend, threads});
  if (group.isal_on_all_cores && std::ranges::find(backends, "isal") != backends.end())
    add_once(list, {"isal", all_cores()});
  return list;
}

auto order(const HostCase& c) { return std::tuple(c.k, c.m, c.chunk_bytes, c.residence); }
auto identity(const HostCase& c) { return std::tuple(order(c), c.op); }

void add_case(std::vector<HostCase>& cases, HostCase c) {
  const auto same =
      std::ranges::find_if(cases, [&](const HostCase& other) { return identity(other) == identity(c); });
  if (same == cases.end()) {
    cases.push_back(std::move(c));
    return;
  }
  for (const HostEntrant& entrant : c.entrants) add_once(same->entrants, entrant);
  same->fresh_ceiling = same->fresh_ceiling || c.fresh_ceiling;
  same->judges_router = same->judges_router || c.judges_router;
}

void add_cases(std::vector<HostCase>& cases, const Group& group, const std::vector<std::string>& backends) {
  for (const auto& [k, m] : group.shapes)
    for (const std::size_t chunk : group.chunks)
      for (const Residence residence : group.residences)
        for (const auto& op : group.ops) {
          // One lost chunk of one is all of them.
          if (op == "decode-m" && m == 1) continue;
          HostCase c{.op = op, .k = k, .m = m, .chunk_bytes = chunk, .residence = residence};
          // Shapes that the Vandermonde matrix does not have.
          if (!gf::shape_error(c.technique, k, m).empty()) c.technique = gf::Technique::cauchy;
          if (const auto error = gf::shape_error(c.technique, k, m); !error.empty())
            throw UsageError(fmt::format("--shapes {}+{}: {}", k, m, error));
          c.entrants = entrants_of(group, residence, backends);
          c.fresh_ceiling = group.fresh_ceiling;
          c.judges_router = group.section == "router";
          if (!c.entrants.empty()) add_case(cases, std::move(c));
        }
}

/// The parts of a list option, each of which must be of `allowed`; `allowed` if it was not given.
std::vector<std::string> names_of(const std::string& option, const std::string& text,
                                  const std::vector<std::string>& allowed) {
  if (text.empty()) return allowed;
  auto names = split_list(option, text);
  for (const auto& name : names)
    if (std::ranges::find(allowed, name) == allowed.end())
      throw UsageError(fmt::format("--{} {}: must be of {}", option, name, fmt::join(allowed, ", ")));
  return names;
}

/// What the command line puts in the place of the sections' own values; empty: nothing.
struct Overrides {
  Shapes shapes;
  std::vector<std::size_t> chunks;
  std::vector<unsigned> threads;
  std::vector<std::string> ops;

  void apply(Group& group) const {
    if (!shapes.empty()) group.shapes = shapes;
    if (!chunks.empty()) group.chunks = chunks;
    if (!threads.empty()) group.threads = threads;
    if (!ops.empty())
      std::erase_if(group.ops, [&](const auto& op) { return std::ranges::find(ops, op) == ops.end(); });
  }
};

std::size_t parse_chunk(const std::string& text) {
  const std::size_t chunk = parse_whole("chunks", text, chunk_granule, std::size_t{1} << 30, true);
  if (chunk % chunk_granule != 0)
    throw UsageError(fmt::format("--chunks {}: must be a multiple of {} bytes", text, chunk_granule));
  return chunk;
}

/// A fifth of the machine's memory, for there may be two pools; 24 GiB are enough for the documented cases.
std::size_t default_largest_bytes() {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(std::size_t{24} << 30, memory / 5);
}

/// INDEX:SHARED:REPORT, which no person types.
Membership parse_member(const std::string& text) {
  Membership member;
  if (!text.empty() &&
      std::sscanf(text.c_str(), "%u:%d:%d", &member.index, &member.shared_fd, &member.report_fd) != 3)
    throw UsageError(fmt::format("--member {}: is for ec_bench itself", text));
  return member;
}

po::options_description describe() {
  po::options_description known("ec_bench host [options]; lists are separated by commas", 110, 80);
  const auto text = [](const std::string& fallback) {
    return po::value<std::string>()->default_value(fallback);
  };
  const auto add = [&](const char* option, const std::string& fallback, const std::string& what) {
    known.add_options()(option, text(fallback), what.c_str());
  };
  add("sections", "", fmt::format("of {}; default all", fmt::join(every_section(), ", ")));
  add("backends", "", fmt::format("of {}; default all", fmt::join(every_backend, ", ")));
  add("ops", "", fmt::format("of {}, where the section has them; default all", fmt::join(every_op, ", ")));
  add("shapes", "", "data+coding chunks in place of the sections' own, as 8+3,10+4");
  add("chunks", "", "bytes of a chunk in place of the sections' own, suffixes K, M, G");
  add("threads", "", "threads in place of the sections' own, each making synchronous calls");
  add("rounds", "11", "samples of each entrant, taken in turn");
  add("sample-ms", "", "shortest time of a sample; default 4, with --processes 100");
  add("processes", "1",
      "that measure the same on the same GPU at once, each with so many threads; GB/s are their sum, p50 and "
      "p99 those "
      "of all calls");
  add("learn-ms", "400",
      fmt::format("that auto, which learns what calls take, codes each case before it is timed, at least {} "
                  "calls a thread; 0: not at all",
                  fewest_lessons));
  add("case-ms", "1500", "after this time a case gets no further round, once there are three");
  add("turns", "16",
      "stripes of its own that each thread codes in turn, as far as they take no more than 512 MiB");
  add("link-bytes", "512M", "of a transfer that measures the link");
  add("largest-bytes", "",
      "of a case's stripes; what needs more is left out and named; default 24G, a fifth of "
      "the memory at most, shared by the processes");
  known.add_options()("json", text(""), "write the report to this file too")("help", "this text");
  return known;
}

}  // namespace

unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

HostOptions parse_host_options(const std::vector<std::string>& arguments) {
  const auto known = describe();
  po::options_description all;
  all.add(known).add_options()("member", po::value<std::string>()->default_value(""));
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional({}).run(), given);
  } catch (const po::error& e) {
    throw UsageError(fmt::format("{}; see ec_bench host --help", e.what()));
  }
  const auto text = [&](const std::string& option) { return given[option].as<std::string>(); };
  const auto each = [&](const std::string& option, auto&& take) {
    if (text(option).empty()) return;
    for (const auto& part : split_list(option, text(option))) take(part);
  };
  HostOptions o;
  if (given.contains("help")) o.help = (std::ostringstream() << known).str();
  Overrides overrides;
  each("shapes", [&](const auto& part) { overrides.shapes.push_back(parse_shape(part)); });
  each("chunks", [&](const auto& part) { overrides.chunks.push_back(parse_chunk(part)); });
  each("threads", [&](const auto& part) {
    overrides.threads.push_back(static_cast<unsigned>(parse_whole("threads", part, 1, 1024)));
  });
  overrides.ops = names_of("ops", text("ops"), every_op);
  const auto sections = names_of("sections", text("sections"), every_section());
  const auto backends = names_of("backends", text("backends"), every_backend);
  for (Group& group : groups()) {
    if (std::ranges::find(sections, group.section) == sections.end()) continue;
    overrides.apply(group);
    add_cases(o.cases, group, backends);
  }
  if (o.cases.empty())
    throw UsageError(
        fmt::format("--sections, --ops and --backends {} leave nothing to measure", text("backends")));
  // Neighbours share their data, and the memory that holds it.
  std::ranges::stable_sort(o.cases, {}, order);
  o.rounds = static_cast<unsigned>(parse_whole("rounds", text("rounds"), 1, 10'000));
  o.processes = static_cast<unsigned>(parse_whole("processes", text("processes"), 1, 256));
  o.member = parse_member(text("member"));
  const std::string sample_ms = !text("sample-ms").empty() ? text("sample-ms")
                                : o.processes > 1          ? "100"
                                                           : "4";
  o.sample_seconds = 1e-3 * static_cast<double>(parse_whole("sample-ms", sample_ms, 0, 60'000));
  o.learn_seconds = 1e-3 * static_cast<double>(parse_whole("learn-ms", text("learn-ms"), 0, 600'000));
  o.case_seconds = 1e-3 * static_cast<double>(parse_whole("case-ms", text("case-ms"), 0, 600'000));
  o.turns = parse_whole("turns", text("turns"), 1, 4096);
  o.link_bytes =
      parse_whole("link-bytes", text("link-bytes"), std::size_t{1} << 20, std::size_t{8} << 30, true);
  o.largest_bytes = text("largest-bytes").empty()
                        ? default_largest_bytes() / o.processes
                        : parse_whole("largest-bytes", text("largest-bytes"), 1, std::size_t{1} << 44, true);
  o.json_file = text("json");
  return o;
}

}  // namespace ec::bench
