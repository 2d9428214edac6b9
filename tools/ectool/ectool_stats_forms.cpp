// The stats of a page as JSON, and JSON as a list for people and in the words of Prometheus.
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>

#include "tools/common/printable.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {
namespace {

using codec::Durations;
using codec::Event;
using codec::StatsPage;
/// What a number is taken from.
struct Counted {
  const StatsPage& page;
  codec::Shard total;
};

/// A single number of a process.
struct Number {
  const char* group;  ///< an object of the process
  const char* name;   ///< in the group
  const char* metric;
  const char* result;  ///< its label of that name, or empty
  const char* help;    ///< of the metric, at its first number
  std::uint64_t (*value)(const Counted&);
};

/// Numbers of one metric are neighbours.
constexpr Number numbers[] = {
    {"decode_plans", "found", "decode_plans_total", "found",
     "Decode plans asked for: found (in the cache) or solved.",
     [](auto& s) { return s.total.times(Event::plan_found); }},
    {"decode_plans", "solved", "decode_plans_total", "solved", "",
     [](auto& s) { return s.total.times(Event::plan_solved); }},
    {"codes", "isa", "codes_total", "isa",
     "Codes made for pools of plugin=cuda, by which of Ceph's plugins could serve them: isa, jerasure, own "
     "(neither).",
     [](auto& s) { return s.total.times(Event::isa_code); }},
    {"codes", "jerasure", "codes_total", "jerasure", "",
     [](auto& s) { return s.total.times(Event::jerasure_code); }},
    {"codes", "own", "codes_total", "own", "", [](auto& s) { return s.total.times(Event::own_code); }},
    {"device", "jobs", "jobs_on_device", "", "Jobs offered to the GPU and not yet answered.",
     [](auto& s) { return s.page.jobs_on_device; }},
    {"device", "starts", "device_starts_total", "up",
     "Times the GPU was to be brought up: up (it did) or failed.",
     [](auto& s) { return s.page.device.starts; }},
    {"device", "failed_starts", "device_starts_total", "failed", "",
     [](auto& s) { return s.page.device.failed_starts; }},
    {"device", "latches", "device_latches_total", "", "Times a fault took the GPU out of service.",
     [](auto& s) { return s.page.device.latches; }},
    {"device", "staging_bytes", "staging_bytes", "",
     "Pinned memory for staging, bounded by EC_CUDA_STAGING_BYTES.",
     [](auto& s) { return s.page.device.staging_bytes; }},
    {"device", "given_up_bytes", "given_up_bytes", "",
     "Memory that a GPU which stopped answering may still write, so that nobody uses it again.",
     [](auto& s) { return s.page.device.given_up_bytes + s.total.times(Event::bytes_given_up); }},
    {"device", "device_bytes", "device_bytes", "",
     "GPU memory of our own. The driver's context and code are not in it.",
     [](auto& s) { return s.page.device.device_bytes; }},
    {"device", "shared_by_mps", "device_shared_by_mps", "", "1 if the GPU is shared by MPS.",
     [](auto& s) { return s.page.device.shared_by_mps; }},
    {"arena", "bytes", "arena_bytes", "", "Size of the arena of libec_cuda_pinned.so.",
     [](auto& s) { return std::uint64_t{s.page.arena.arena_bytes}; }},
    {"arena", "used_bytes", "arena_used_bytes", "", "Of it, handed out now.",
     [](auto& s) { return std::uint64_t{s.page.arena.used_bytes}; }},
    {"arena", "peak_bytes", "arena_peak_bytes", "", "Of it, the most that ever was handed out.",
     [](auto& s) { return std::uint64_t{s.page.arena.peak_bytes}; }},
    {"arena", "handed_out", "arena_blocks_total", "handed_out",
     "Blocks asked of the arena: handed_out, given_back, or refused (no room).",
     [](auto& s) { return std::uint64_t{s.page.arena.allocated}; }},
    {"arena", "given_back", "arena_blocks_total", "given_back", "",
     [](auto& s) { return std::uint64_t{s.page.arena.released}; }},
    {"arena", "refused", "arena_blocks_total", "refused", "",
     [](auto& s) { return std::uint64_t{s.page.arena.refused}; }}};

const char* state_of(const StatsPage& page) {
  constexpr std::array<const char*, 4> states{"none", "coming up", "up", "latched"};
  return page.device.state < states.size() ? states[page.device.state] : "unknown";
}

/// In JSON the key of a bucket: microseconds.
std::string bound_of(std::size_t bucket) {
  if (bucket + 1 == Durations::buckets) return "more";
  return fmt::format("{}", static_cast<double>(Durations::bound(bucket)) * 1e-3);
}

Json to_json(const Durations& durations) {
  Json at_most_us = Json::object();
  for (std::size_t i = 0; i < Durations::buckets; ++i)
    if (durations.jobs[i] != 0) at_most_us[bound_of(i)] = durations.jobs[i];
  const auto jobs = std::accumulate(durations.jobs.begin(), durations.jobs.end(), std::uint64_t{0});
  return {{"jobs", jobs}, {"nanoseconds", durations.nanoseconds}, {"at_most_us", at_most_us}};
}

/// The text so far, one metric after the other: all lines of one must be neighbours.
class PrometheusText {
 public:
  explicit PrometheusText(const Json& processes) : processes_(processes) {}

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP ec_cuda_{0} {1}\n# TYPE ec_cuda_{0} {2}\n", name, help,
                   type);
  }
  /// body(process) writes the lines of a process.
  template <class Body>
  void each(Body&& body) {
    for (const Json& p : processes_) {
      process_ = label("process", p["name"]) + label("pid", p["pid"]) + label("uid", p["uid"]);
      if (p["copy"] != 0) process_ += label("copy", p["copy"]);
      body(p);
    }
  }
  /// body(row, labels) writes the lines of one back end and operation.
  template <class Body>
  void each_row(Body&& body) {
    each([&](const Json& p) {
      for (const Json& row : p["rows"])
        body(row, label("backend", row["backend"]) + label("operation", row["operation"]));
    });
  }
  /// labels: those beside the process's; suffix: of the metric's name.
  template <class Value>
  void line(std::string_view labels, const Value& value, std::string_view suffix = "") {
    std::string all = process_ + std::string(labels);
    all.pop_back();
    fmt::format_to(std::back_inserter(out_), "ec_cuda_{}{}{{{}}} {}\n", name_, suffix, all, value);
  }

  /// name="value", of a value that is printable.
  static std::string label(std::string_view name, const Json& value) {
    std::string out = fmt::format("{}=\"", name);
    for (const char c : fmt::format("{}", value)) {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
    return out + "\",";
  }

  std::string take() { return std::move(out_); }

 private:
  const Json& processes_;
  std::string out_, process_;
  std::string_view name_;
};

void histogram(PrometheusText& text, const std::string& labels, const Json& durations) {
  if (durations["jobs"] == 0) return;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < Durations::buckets; ++i) {
    below += durations["at_most_us"].value(bound_of(i), std::uint64_t{0});
    const auto bound = i + 1 == Durations::buckets
                           ? "+Inf"
                           : fmt::format("{:.7g}", static_cast<double>(Durations::bound(i)) * 1e-9);
    text.line(labels + PrometheusText::label("le", bound), below, "_bucket");
  }
  text.line(labels, durations["nanoseconds"].get<double>() * 1e-9, "_sum");
  text.line(labels, below, "_count");
}

void rows(PrometheusText& text) {
  text.begin("jobs_total", "counter", "Jobs that a back end finished. Reads with nothing lost are none.");
  text.each_row([&](const Json& row, const std::string& labels) { text.line(labels, row["jobs"]); });
  text.begin("source_bytes_total", "counter", "Bytes that those jobs read.");
  text.each_row([&](const Json& row, const std::string& labels) { text.line(labels, row["source_bytes"]); });
  text.begin("fallbacks_total", "counter",
             "Jobs that a back end was given and did not finish, so that the next one did: unsupported (not "
             "for it), busy (no room, or no device yet or any more), fault, hung (no answer in time).");
  text.each_row([&](const Json& row, const std::string& labels) {
    for (const auto& [cause, jobs] : row["fallbacks"].items())
      text.line(labels + PrometheusText::label("cause", cause), jobs);
  });
  text.begin(
      "job_duration_seconds", "histogram",
      fmt::format(
          "Time of finished jobs that were timed. size=large: all that read {} bytes or more. size=small: of "
          "the others one in {} of each thread.",
          codec::timed_from_bytes, codec::small_jobs_a_timed_one));
  text.each_row([&](const Json& row, const std::string& labels) {
    for (const auto& [size, durations] : row["timed"].items())
      histogram(text, labels + PrometheusText::label("size", size), durations);
  });
}

void validations(PrometheusText& text) {
  text.begin(
      "validations_total", "counter",
      "Jobs that were due to be compared with the CPU: checked, of these mismatch (wrong, and put right), or "
      "unchecked (no memory for it).");
  text.each([&](const Json& p) {
    for (const Json& v : p["validation"])
      for (const auto& [result, jobs] :
           {std::pair{"checked", v["checked"]}, {"mismatch", v["mismatches"]}, {"unchecked", v["unchecked"]}})
        text.line(PrometheusText::label("backend", v["backend"]) + PrometheusText::label("result", result),
                  jobs);
  });
}

void state(PrometheusText& text, const char* name, const char* help, const char* state) {
  text.begin(name, "gauge", help);
  text.each([&](const Json& p) { text.line("", int{p["device"]["state"] == state}); });
}

void single_numbers(PrometheusText& text) {
  for (const Number& n : numbers) {
    const std::string_view metric = n.metric;
    if (*n.help != '\0') text.begin(metric, metric.ends_with("_total") ? "counter" : "gauge", n.help);
    const std::string labels = *n.result != '\0' ? PrometheusText::label("result", n.result) : "";
    text.each([&](const Json& p) { text.line(labels, p[n.group][n.name]); });
  }
}

std::string series_of(const Json& processes) {
  PrometheusText text(processes);
  text.begin("info", "gauge", "What counts there: 1.");
  text.each([&](const Json& p) {
    text.line(
        PrometheusText::label("version", p["version"]) + PrometheusText::label("interface", p["interface"]),
        1);
  });
  text.begin("start_time_seconds", "gauge", "When the process began to count, in seconds since 1970.");
  text.each([&](const Json& p) { text.line("", p["since"]); });
  rows(text);
  validations(text);
  state(text, "device_up", "1 while the GPU is in use.", "up");
  state(text, "device_latched", "1 while the GPU is out of service after a fault.", "latched");
  single_numbers(text);
  return text.take();
}

}  // namespace

Json stats_from(const StatsPage& page) {
  const Counted seen{page, sum(page)};
  Json rows = Json::array(), validation = Json::array();
  std::set<std::string> names;
  for (std::size_t b = 0; b < codec::max_backends; ++b) {
    const std::string backend = printable(page.backends[b]);
    if (backend.empty()) break;
    if (!names.insert(backend).second) throw std::runtime_error("its stats name a back end twice");
    for (const auto operation :
         {codec::Operation::encode, codec::Operation::decode, codec::Operation::update}) {
      const codec::Row& row = seen.total.row(b, operation);
      if (row.calls == 0 && row.fallbacks == decltype(row.fallbacks){} && backend != "cuda") continue;
      Json fallbacks;
      for (std::size_t c = 0; c < codec::causes; ++c)
        fallbacks[std::string(codec::cause_name(c))] = row.fallbacks[c];
      rows.push_back({{"backend", backend},
                      {"operation", name(operation)},
                      {"jobs", row.calls},
                      {"source_bytes", row.source_bytes},
                      {"fallbacks", fallbacks},
                      {"timed", {{"small", to_json(row.small)}, {"large", to_json(row.large)}}}});
    }
    if (const auto& c = page.checks[b]; (c.checked | c.mismatches | c.unchecked) != 0)
      validation.push_back({{"backend", backend},
                            {"checked", c.checked},
                            {"mismatches", c.mismatches},
                            {"unchecked", c.unchecked}});
  }
  Json all{{"version", printable(page.version)},
           {"interface", printable(page.interface)},
           {"since", page.since},
           {"rows", rows},
           {"validation", validation}};
  all["device"]["state"] = state_of(page);
  for (const Number& n : numbers) all[n.group][n.name] = n.value(seen);
  return all;
}

std::string list_of(const StatsOfHost& host) {
  std::string out;
  if (host.processes.empty())
    out = "no process that is believed (--all: any that this user may look into) has stats of ec-cuda\n";
  else
    out = fmt::format("{:>8} {:>6} {:16} {:8} {:9} {:>14} {:>12} {:>10}  {}\n", "PID", "user", "name",
                      "version", "interface", "jobs", "source GB", "fell back", "GPU");
  for (const Json& p : host.processes) {
    std::uint64_t jobs = 0, bytes = 0, fell_back = 0;
    for (const Json& row : p["rows"]) {
      jobs += row["jobs"].get<std::uint64_t>();
      bytes += row["source_bytes"].get<std::uint64_t>();
      for (const Json& n : row["fallbacks"]) fell_back += n.get<std::uint64_t>();
    }
    fmt::format_to(std::back_inserter(out), "{:>8} {:>6} {:16} {:8} {:9} {:14} {:12.3f} {:10}  {}\n",
                   p["pid"], p["uid"], p["name"], p["version"], p["interface"], jobs,
                   static_cast<double>(bytes) * 1e-9, fell_back, p["device"]["state"]);
  }
  for (const std::string& why : host.left_out) out += "left out: " + why + '\n';
  return out;
}

std::string prometheus_of(StatsOfHost& host) {
  // Each process by itself says how long its lines are.
  std::size_t bytes = 0, fit = 0;
  while (fit < host.processes.size() &&
         (bytes += series_of(Json::array({host.processes[fit]})).size()) <= most_prometheus_bytes)
    ++fit;
  if (const std::size_t rest = host.processes.size() - fit; rest != 0) {
    host.left_out.push_back(fmt::format("{} process(es), for whose series there is no room", rest));
    while (host.processes.size() > fit) host.processes.erase(host.processes.size() - 1);
  }
  return series_of(host.processes) +
         fmt::format(
             "# HELP ec_cuda_left_out Reasons for which stats that were there are not in this file.\n"
             "# TYPE ec_cuda_left_out gauge\nec_cuda_left_out {}\n",
             host.left_out.size());
}

}  // namespace ec::tools
