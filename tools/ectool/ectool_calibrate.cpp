// Times jobs of a few shapes and sizes, and has cost_fit make rates of that.
#include "tools/ectool/commands.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <stdexcept>
#include <vector>

#include "kernels/backends.hpp"
#include "plugin/codec/routing/router.hpp"
#include "tools/ectool/cost_fit.hpp"
#include "tools/ectool/ectool_device.hpp"

namespace ec::tools {
namespace {

using codec::CostTable;
using codec::Rates;
using codec::Work;
using kernels::Job;
using kernels::Residence;
using kernels::Status;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kib = 1024, mib = kib * kib;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Runs jobs; returns what transform_all returns.
using Coder = std::function<Status(std::span<const Job>)>;

void check(Status status) {
  if (status != Status::ok) throw std::runtime_error(fmt::format("a job was answered {}", name(status)));
}

/// Any matrix of that shape without zeros: what it means does not matter here.
gf::Matrix matrix(unsigned targets, unsigned sources) {
  gf::Matrix m(targets, sources);
  for (unsigned r = 0; r < targets; ++r)
    for (unsigned c = 0; c < sources; ++c) m(r, c) = static_cast<std::uint8_t>(2 + (r * 31 + c * 7) % 253);
  return m;
}

/// Stripes of one shape in memory of one residence, ready to be coded over and over.
struct Stripes {
  Stripes(const Work& work, Residence residence)
      : program(matrix(work.targets, work.sources)),
        chunks((work.sources + work.targets) * work.stripes, work.chunk_bytes, residence) {
    for (std::size_t s = 0, chunk = 0; s < work.stripes; ++s) {
      for (unsigned i = 0; i < work.sources; ++i) sources.push_back(chunks.source(chunk++));
      for (unsigned i = 0; i < work.targets; ++i) targets.push_back(chunks.target(chunk++));
    }
    for (std::size_t s = 0; s < work.stripes; ++s)
      jobs.push_back({&program, std::span(sources).subspan(s * work.sources, work.sources),
                      std::span(targets).subspan(s * work.targets, work.targets), work.chunk_bytes});
  }

  kernels::Program program;  // which cannot be copied, nor can this
  Chunks chunks;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  std::vector<Job> jobs;
};

/// Median of calls that take `jobs_in_a_call` of the jobs in turn, after a round that is not counted: 3 at
/// least, then until 60 ms are over or there are 200.
double median_us(const Coder& code, std::span<const Job> jobs, std::size_t jobs_in_a_call) {
  check(code(jobs));
  std::vector<double> times;
  const auto begin = Clock::now();
  for (std::size_t at = 0; times.size() < 3 || (times.size() < 200 && us_since(begin) < 60e3);
       at = (at + jobs_in_a_call) % jobs.size()) {
    const auto one = Clock::now();
    check(code(jobs.subspan(at, jobs_in_a_call)));
    times.push_back(us_since(one));
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

/// Who is measured, and whose bytes it must give.
struct Trial {
  Coder code, judge;
  std::function<void()> has_measured;  ///< called after each sample
};

/// Times the same bytes that were compared with those of the judge on pageable memory: `work`, on one of
/// `turns` places after the other.
Sample measure(const Trial& trial, const Work& work, Residence residence, std::size_t turns = 1) {
  Work all = work;
  all.stripes *= turns;
  const Stripes stripes(all, residence), expected(all, Residence::pageable);
  check(trial.judge(expected.jobs));
  check(trial.code(stripes.jobs));
  const std::size_t last = (all.sources + all.targets) * all.stripes - 1;
  if (stripes.chunks.read(last) != expected.chunks.read(last))
    throw std::runtime_error(fmt::format("wrong bytes at {} sources, {} targets of {} bytes, {}",
                                         work.sources, work.targets, work.chunk_bytes, name(residence)));
  const Sample sample{work, median_us(trial.code, stripes.jobs, work.stripes)};
  trial.has_measured();
  return sample;
}

Coder coder_of(kernels::Backend& backend) {
  return [&backend](std::span<const Job> jobs) { return backend.transform_all(jobs); };
}

struct Shape {
  unsigned sources, targets;
};
/// Narrow to wide: what is moved and what is computed differ in their ratio.
constexpr Shape shapes[] = {{4, 2}, {8, 3}, {32, 8}};

/// A work of that shape which moves about so many bytes.
Work moving(Shape shape, std::size_t bytes) {
  return {shape.sources, shape.targets, bytes / (shape.sources + shape.targets) / 64 * 64};
}

/// A daemon has other stripes in hand too, so a call does not find its own in the cache where the one before
/// left it: calls take turns on so many stripes, within so many bytes, but on two at least.
constexpr std::size_t stripes_in_hand = 8, most_bytes_in_hand = 256 * mib;

std::size_t turns(std::size_t moved) {
  return std::clamp<std::size_t>(most_bytes_in_hand / moved, 2, stripes_in_hand);
}

/// Calls of measure below.
constexpr unsigned samples_of_cpu = 1 + std::tuple_size_v<decltype(CostTable::cpu)> * std::size(shapes);
constexpr unsigned samples_of_device = 2 + std::size(shapes) + 2 + 2;

void measure_cpu(CostTable& costs, const Trial& cpu) {
  constexpr std::array moved{192 * kib, 768 * kib, 3 * mib, 24 * mib, 160 * mib};
  static_assert(moved.size() == std::tuple_size_v<decltype(costs.cpu)>);
  // A back end for the CPU starts each stripe anew.
  const double stripe_us = measure(cpu, {8, 3, 64}, Residence::pageable).us;
  for (std::size_t i = 0; i < costs.cpu.size(); ++i) {
    std::vector<Sample> samples;
    for (const Shape& shape : shapes)
      samples.push_back(measure(cpu, moving(shape, moved[i]), Residence::pageable, turns(moved[i])));
    costs.cpu[i] = fit_memory({.stripe_us = stripe_us}, samples);
  }
}

Rates starts_of(const Trial& device, Residence residence) {
  constexpr unsigned many = 64;
  const double one = measure(device, {8, 3, 4096}, residence).us;
  const double all = measure(device, {8, 3, 4096, many}, residence).us;
  // What the bytes of a stripe cost is counted here too, which at 4 KiB is little.
  const double stripe = std::clamp((all - one) / (many - 1), 0.0, one);
  return {.call_us = one - stripe, .stripe_us = stripe};
}

Rates measure_pageable(const Trial& device) {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes)
    samples.push_back(measure(device, moving(shape, 32 * mib), Residence::pageable));
  return fit_memory(starts_of(device, Residence::pageable), samples);
}

Rates measure_link(const Trial& device) {
  return fit_link(starts_of(device, Residence::pinned),
                  measure(device, moving({8, 1}, 36 * mib), Residence::pinned),
                  measure(device, moving({1, 8}, 36 * mib), Residence::pinned));
}

}  // namespace

codec::Calibration measure_costs(const codec::NodeSettings& node, const Say& say, const Progress& progress) {
  codec::Calibration c{codec::this_machine().cpu, {}, {}, codec::default_costs()};
  c.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));

  std::string why;
  const std::string device = device_name(node, &why);
  const unsigned samples = samples_of_cpu + (device.empty() ? 0 : samples_of_device);
  unsigned measured = 0;
  const auto has_measured = [&] { progress(++measured, samples); };

  const codec::Router router(codec::BackendChoice::cpu, std::nullopt);
  const Coder cpu = [&](std::span<const Job> jobs) { return router.transform_all(jobs); };
  say(fmt::format("CPU: {}", c.cpu));
  // Another's code, except where the CPU's best is ISA-L itself.
  measure_cpu(c.costs, {cpu, coder_of(*kernels::find_backend("isal")), has_measured});

  if (device.empty()) {
    say(fmt::format("GPU: none ({}); its costs are the built-in ones", why));
    return c;
  }
  say(fmt::format("GPU: {}", device));
  const Trial gpu{coder_of(*kernels::find_backend("cuda")), cpu, has_measured};
  c.gpu = device;
  c.costs.pageable = measure_pageable(gpu);
  c.costs.pinned = measure_link(gpu);
  return c;
}

std::string describe(const CostTable& costs) {
  std::string text = fmt::format("{:<8} {:<26} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "us:", "a call",
                                 "a stripe", "MB read", "written", "product");
  // A dash is what is not counted.
  const auto cell = [](double us, int digits) { return us == 0 ? "-" : fmt::format("{:.{}f}", us, digits); };
  const auto row = [&](const char* who, const std::string& on, const Rates& r) {
    text += fmt::format("{:<8} {:<26} {:>9} {:>9} {:>9} {:>9} {:>9}\n", who, on, cell(r.call_us, 2),
                        cell(r.stripe_us, 2), cell(r.read_us_per_mb, 3), cell(r.written_us_per_mb, 3),
                        cell(r.product_us_per_mb, 3));
  };
  for (std::size_t i = 0; i < costs.cpu.size(); ++i)
    row("cpu",
        i < codec::class_bounds.size() ? fmt::format("to {} bytes moved", codec::class_bounds[i])
                                       : "more bytes moved",
        costs.cpu[i]);
  if (costs.pageable)
    row("device", "pageable chunks", *costs.pageable);
  else
    text += "device   pageable chunks            never: they stay with the CPU\n";
  row("device", "pinned chunks", costs.pinned);
  return text;
}

}  // namespace ec::tools
