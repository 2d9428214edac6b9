#include "plugin/codec/stats/metrics_text.hpp"

#include <fmt/format.h>

#include <iterator>

namespace ec::codec {
namespace {

constexpr std::array every_operation{Operation::encode, Operation::decode, Operation::update};
constexpr std::string_view device_backend = "cuda";

/// As a value of a label.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

class Text {
 public:
  Text(const StatsPage& page, std::string_view process)
      : page_(page), process_("process=" + quoted(process)) {}

  std::string all() {
    metric("info", "gauge", "What wrote this: 1.");
    line("info", fmt::format("version=\"{}\"", page_.version.data()), 1);
    metric("start_time_seconds", "gauge", "When the process began to count, in seconds since 1970.");
    line("start_time_seconds", "", page_.since);
    jobs();
    durations();
    checks();
    events();
    if (has_device()) device();
    if (kernels::read(page_.arena.arena_bytes) != 0) arena();
    return std::move(out_);
  }

 private:
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(out_), "# HELP ec_cuda_{0} {1}\n# TYPE ec_cuda_{0} {2}\n", name, help,
                   type);
  }
  template <class Value>
  void line(std::string_view name, std::string_view labels, Value value) {
    fmt::format_to(std::back_inserter(out_), "ec_cuda_{}{{{}{}{}}} {}\n", name, process_,
                   labels.empty() ? "" : ",", labels, value);
  }
  void single(std::string_view name, std::string_view type, std::string_view help,
              const std::uint64_t& tally) {
    metric(name, type, help);
    line(name, "", kernels::read(tally));
  }

  bool has_device() const {
    for (const auto& name : page_.backends)
      if (name.data() == device_backend) return true;
    return false;
  }

  /// body(name of the back end, labels, row) for each that this build has.
  template <class Body>
  void each_row(Body&& body) const {
    for (std::size_t b = 0; b < max_backends && page_.backends[b][0] != '\0'; ++b)
      for (const Operation operation : every_operation) {
        const std::string_view backend = page_.backends[b].data();
        body(backend, fmt::format("backend=\"{}\",operation=\"{}\"", backend, name(operation)),
             sum(page_, b, operation));
      }
  }

  void jobs() {
    metric("jobs_total", "counter", "Jobs that a back end finished. Reads with nothing lost are none.");
    each_row([&](auto, const auto& labels, const Row& row) {
      if (row.calls != 0) line("jobs_total", labels, row.calls);
    });
    metric("source_bytes_total", "counter", "Bytes that those jobs read.");
    each_row([&](auto, const auto& labels, const Row& row) {
      if (row.calls != 0) line("source_bytes_total", labels, row.source_bytes);
    });
    metric("fallbacks_total", "counter",
           "Jobs that a back end was given and did not finish, so that the next one did: unsupported (not "
           "for it), "
           "busy (no room, or no device yet or any more), fault, hung (no answer in time).");
    each_row([&](auto backend, const auto& labels, const Row& row) {
      for (std::size_t cause = 0; cause < causes; ++cause)
        if (row.fallbacks[cause] != 0 || backend == device_backend)
          line("fallbacks_total", fmt::format("{},cause=\"{}\"", labels, cause_name(cause)),
               row.fallbacks[cause]);
    });
  }

  void durations() {
    metric(
        "job_duration_seconds", "histogram",
        fmt::format(
            "Time of finished jobs that were timed. size=large: all that read {} bytes or more. size=small: "
            "of the others one in {} of each thread.",
            timed_from_bytes, small_jobs_a_timed_one));
    each_row([&](auto, const auto& labels, const Row& row) {
      histogram(labels + ",size=\"small\"", row.small);
      histogram(labels + ",size=\"large\"", row.large);
    });
  }
  void histogram(const std::string& labels, const Durations& durations) {
    std::uint64_t all = 0;
    for (const auto n : durations.jobs) all += n;
    if (all == 0) return;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i + 1 < Durations::buckets; ++i) {
      below += durations.jobs[i];
      const auto bound = static_cast<double>(Durations::bound(i)) * 1e-9;
      line("job_duration_seconds_bucket", fmt::format("{},le=\"{:.7g}\"", labels, bound), below);
    }
    line("job_duration_seconds_bucket", labels + ",le=\"+Inf\"", all);
    line("job_duration_seconds_sum", labels, static_cast<double>(durations.nanoseconds) * 1e-9);
    line("job_duration_seconds_count", labels, all);
  }

  /// Whoever validates counts in page.checks.
  void checks() {
    metric("validations_total", "counter",
           "Jobs that were due to be compared with the CPU: checked, of these mismatch (wrong, and put "
           "right), or "
           "unchecked (no memory for it).");
    for (std::size_t b = 0; b < max_backends; ++b) {
      const auto checked = kernels::read(page_.checks[b].checked);
      const auto mismatches = kernels::read(page_.checks[b].mismatches);
      const auto unchecked = kernels::read(page_.checks[b].unchecked);
      if (checked + mismatches + unchecked == 0) continue;
      const auto labels = fmt::format("backend=\"{}\",result=", page_.backends[b].data());
      line("validations_total", labels + "\"checked\"", checked);
      line("validations_total", labels + "\"mismatch\"", mismatches);
      line("validations_total", labels + "\"unchecked\"", unchecked);
    }
  }

  void events() {
    metric("decode_plans_total", "counter", "Decode plans asked for: found (in the cache) or solved.");
    line("decode_plans_total", "result=\"found\"", sum(page_, Event::plan_found));
    line("decode_plans_total", "result=\"solved\"", sum(page_, Event::plan_solved));
  }

  void device() {
    const kernels::DeviceTallies& d = page_.device;
    const auto in_state = [&](kernels::DeviceState s) {
      return std::uint64_t{kernels::read(d.state) == static_cast<std::uint64_t>(s)};
    };
    single("device_up", "gauge", "1 while the GPU is in use.", in_state(kernels::DeviceState::up));
    single("device_latched", "gauge", "1 while the GPU is out of service after a fault.",
           in_state(kernels::DeviceState::latched));
    metric("device_starts_total", "counter", "Times the GPU was to be brought up: up (it did) or failed.");
    line("device_starts_total", "result=\"up\"", kernels::read(d.starts));
    line("device_starts_total", "result=\"failed\"", kernels::read(d.failed_starts));
    single("device_latches_total", "counter", "Times a fault took the GPU out of service.", d.latches);
    single("jobs_on_device", "gauge", "Jobs offered to the GPU and not yet answered.", page_.jobs_on_device);
    single("staging_bytes", "gauge", "Pinned memory for staging, bounded by EC_CUDA_STAGING_BYTES.",
           d.staging_bytes);
    single("given_up_bytes", "gauge",
           "Memory that a GPU which stopped answering may still write, so that nobody uses it again.",
           kernels::read(d.given_up_bytes) + sum(page_, Event::bytes_given_up));
    single("device_bytes", "gauge",
           "GPU memory for tables of addresses and for copies. The driver's context and code are not in it.",
           d.device_bytes);
    metric(
        "programs_total", "counter",
        "Programs generated for a matrix: found (in the cache in memory or on disk), compiled, or failed.");
    line("programs_total", "result=\"found\"", kernels::read(d.programs_found));
    line("programs_total", "result=\"compiled\"", kernels::read(d.programs_compiled));
    line("programs_total", "result=\"failed\"", kernels::read(d.programs_failed));
  }

  void arena() {
    const ec_cuda_pinned_stats& a = page_.arena;
    single("arena_bytes", "gauge", "Size of the arena of libec_cuda_pinned.so.", a.arena_bytes);
    single("arena_used_bytes", "gauge", "Of it, handed out now.", a.used_bytes);
    single("arena_peak_bytes", "gauge", "Of it, the most that ever was handed out.", a.peak_bytes);
    metric("arena_blocks_total", "counter",
           "Blocks asked of the arena: handed_out, given_back, or refused (no room).");
    line("arena_blocks_total", "result=\"handed_out\"", kernels::read(a.allocated));
    line("arena_blocks_total", "result=\"given_back\"", kernels::read(a.released));
    line("arena_blocks_total", "result=\"refused\"", kernels::read(a.refused));
  }

  const StatsPage& page_;
  const std::string process_;
  std::string out_;
};

}  // namespace

std::string metrics_text(const StatsPage& page, std::string_view process) {
  return Text(page, process).all();
}

}  // namespace ec::codec
