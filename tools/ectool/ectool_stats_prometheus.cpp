// The stats of processes in the words of Prometheus.
#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "tools/ectool/ectool_stats.hpp"
#include "tools/ectool/ectool_stats_numbers.hpp"

namespace ec::tools {
namespace {

constexpr std::string_view device_backend = "cuda";

/// name="value", of a value that is printable.
std::string label(std::string_view name, std::string_view value) {
  std::string out = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

/// No two of them alike.
std::string labels_of(const ProcessStats& p) {
  const std::string labels =
      fmt::format("{},{}", label("process", p.name), label("pid", std::to_string(p.pid)));
  return p.copy == 0 ? labels : fmt::format("{},{}", labels, label("copy", std::to_string(p.copy)));
}

bool has_device(const ProcessStats& p) {
  for (const auto& row : p.rows)
    if (row.backend == device_backend) return true;
  return false;
}

/// The text so far, one metric after the other: all lines of one must be neighbours.
class Text {
 public:
  explicit Text(const std::vector<ProcessStats>& processes) : processes_(processes) {}

  /// body(process) writes the lines of a process.
  template <class Body>
  void metric(std::string_view name, std::string_view type, std::string_view help, Body&& body) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP ec_cuda_{0} {1}\n# TYPE ec_cuda_{0} {2}\n", name, help,
                   type);
    each(body);
  }
  template <class Body>
  void each(Body&& body) {
    for (const ProcessStats& p : processes_) {
      process_ = labels_of(p);
      body(p);
    }
  }
  /// more: labels beside those of the process; suffix: of the metric's name.
  template <class Value>
  void line(std::string_view more, Value value, std::string_view suffix = "") {
    fmt::format_to(std::back_inserter(out_), "ec_cuda_{}{}{{{}{}{}}} {}\n", name_, suffix, process_,
                   more.empty() ? "" : ",", more, value);
  }
  std::string take() { return std::move(out_); }

 private:
  const std::vector<ProcessStats>& processes_;
  std::string out_, process_;
  std::string_view name_;
};

std::string labels_of(const ProcessStats::Row& row) {
  return fmt::format("{},operation=\"{}\"", label("backend", row.backend), name(row.operation));
}

void histogram(Text& text, const std::string& labels, const codec::Durations& durations) {
  std::uint64_t all = 0;
  for (const auto n : durations.jobs) all += n;
  if (all == 0) return;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i + 1 < codec::Durations::buckets; ++i) {
    below += durations.jobs[i];
    const auto bound = static_cast<double>(codec::Durations::bound(i)) * 1e-9;
    text.line(fmt::format("{},le=\"{:.7g}\"", labels, bound), below, "_bucket");
  }
  text.line(labels + ",le=\"+Inf\"", all, "_bucket");
  text.line(labels, static_cast<double>(durations.nanoseconds) * 1e-9, "_sum");
  text.line(labels, all, "_count");
}

void rows(Text& text) {
  const auto each_row = [&](auto&& body) {
    return [&text, body](const ProcessStats& p) {
      for (const auto& row : p.rows) body(row, labels_of(row));
    };
  };
  text.metric("jobs_total", "counter", "Jobs that a back end finished. Reads with nothing lost are none.",
              each_row([&](const auto& row, const auto& labels) {
                if (row.counts.calls != 0) text.line(labels, row.counts.calls);
              }));
  text.metric("source_bytes_total", "counter", "Bytes that those jobs read.",
              each_row([&](const auto& row, const auto& labels) {
                if (row.counts.calls != 0) text.line(labels, row.counts.source_bytes);
              }));
  text.metric("fallbacks_total", "counter",
              "Jobs that a back end was given and did not finish, so that the next one did: unsupported (not "
              "for it), "
              "busy (no room, or no device yet or any more), fault, hung (no answer in time).",
              each_row([&](const auto& row, const auto& labels) {
                for (std::size_t c = 0; c < codec::causes; ++c)
                  if (row.counts.fallbacks[c] != 0 || row.backend == device_backend)
                    text.line(fmt::format("{},cause=\"{}\"", labels, codec::cause_name(c)),
                              row.counts.fallbacks[c]);
              }));
  text.metric(
      "job_duration_seconds", "histogram",
      fmt::format(
          "Time of finished jobs that were timed. size=large: all that read {} bytes or more. size=small: of "
          "the others one in {} of each thread.",
          codec::timed_from_bytes, codec::small_jobs_a_timed_one),
      each_row([&](const auto& row, const auto& labels) {
        histogram(text, labels + ",size=\"small\"", row.counts.small);
        histogram(text, labels + ",size=\"large\"", row.counts.large);
      }));
}

void checks(Text& text) {
  text.metric(
      "validations_total", "counter",
      "Jobs that were due to be compared with the CPU: checked, of these mismatch (wrong, and put right), or "
      "unchecked (no memory for it).",
      [&](const ProcessStats& p) {
        for (const auto& [backend, c] : p.checks)
          for (const auto& [result, n] :
               {std::pair{"checked", c.checked}, {"mismatch", c.mismatches}, {"unchecked", c.unchecked}})
            text.line(fmt::format("{},result=\"{}\"", label("backend", backend), result), n);
      });
}

void state(Text& text, const char* name, const char* help, kernels::DeviceState state) {
  text.metric(name, "gauge", help, [&](const ProcessStats& p) {
    if (has_device(p)) text.line("", int{p.device.state == static_cast<std::uint64_t>(state)});
  });
}

void numbers(Text& text) {
  for (const StatsNumber& n : stats_numbers) {
    const std::string_view group = n.group;
    const auto line = [&](const ProcessStats& p) {
      const bool there =
          group == "decode_plans" || (group == "arena" ? p.arena.arena_bytes != 0 : has_device(p));
      if (there) text.line(n.result == nullptr ? "" : label("result", n.result), n.value(p));
    };
    if (*n.type != '\0')
      text.metric(n.metric, n.type, n.help, line);
    else
      text.each(line);
  }
}

}  // namespace

std::string prometheus_of(const std::vector<ProcessStats>& processes) {
  Text text(processes);
  text.metric("info", "gauge", "What counts there: 1.",
              [&](const ProcessStats& p) { text.line(label("version", p.version), 1); });
  text.metric("start_time_seconds", "gauge", "When the process began to count, in seconds since 1970.",
              [&](const ProcessStats& p) { text.line("", p.since); });
  rows(text);
  checks(text);
  state(text, "device_up", "1 while the GPU is in use.", kernels::DeviceState::up);
  state(text, "device_latched", "1 while the GPU is out of service after a fault.",
        kernels::DeviceState::latched);
  numbers(text);
  return text.take();
}

}  // namespace ec::tools
