// The question out of name=value, and the answer in words.
#include "tools/ectool/commands.hpp"

#include <fmt/format.h>

#include <array>

#include "kernels/backends.hpp"
#include "plugin/codec/routing/router.hpp"
#include "tools/ectool/ectool_device.hpp"
#include "tools/ectool/name_values.hpp"

namespace ec::tools {
namespace {

using codec::BackendChoice;
using codec::Decision;
using codec::NodeSettings;
using codec::Router;
using codec::Work;
using kernels::Residence;

/// The first back end for the CPU that this router would ask and that takes host memory of this shape.
std::string cpu_backend(const Router& router, const Work& work) {
  const std::vector<kernels::Source> sources(work.sources);
  const std::vector<kernels::Target> targets(work.targets);
  const kernels::Job job{nullptr, sources, targets, work.chunk_bytes};
  for (const kernels::Backend* backend : kernels::backends())
    if (backend->name() != "cuda" && router.may_code(backend->name()) && backend->supports(job))
      return std::string(backend->name());
  return "none";
}

std::string because(const Decision& decision, const Router& router, const Work& work,
                    const NodeSettings& node) {
  switch (decision.reason) {
    case Decision::Reason::on_device:
      return "chunks lie on the device, which only the device can address";
    case Decision::Reason::forced:
      return fmt::format("EC_CUDA_BACKEND={} says so", codec::name(router.choice()));
    case Decision::Reason::threshold:
      return fmt::format("EC_CUDA_THRESHOLD={} decides, and all sources together have {} bytes",
                         *node.threshold_bytes, work.sources * work.chunk_bytes);
    case Decision::Reason::pageable_stays:
      return node.threshold_bytes ? "chunks are pageable, and EC_CUDA_THRESHOLD is for pinned ones"
                                  : "chunks are pageable, and there are no costs for those on the device";
    case Decision::Reason::predicted_faster:
      return fmt::format(
          "{:.1f} us are predicted for the GPU and {:.1f} for the CPU, and the GPU gets what it does in less "
          "than {} of that",
          decision.device_us, decision.cpu_us, codec::DeviceLoad::clear_gain);
  }
  return {};
}

}  // namespace

const char* const explain_help =
    "explain takes name=value:\n"
    "  k, m             the code; k at least 2, m at least 1, k+m at most 255. A decode is a code too: m is\n"
    "                   then the number of lost chunks\n"
    "  bytes            of one chunk, 1 to 4G; suffixes K, M, G (powers of 1024)\n"
    "  residence        pageable, pinned or device [pageable]\n"
    "  jobs             other calls on the device meanwhile [0]\n";

std::string explain(const std::vector<std::string>& pairs, const NodeSettings& node) {
  constexpr std::array<std::string_view, 5> names{"k", "m", "bytes", "residence", "jobs"};
  constexpr std::array<std::string_view, 3> residences{"pageable", "pinned", "device"};
  const NameValues given(pairs, names);
  Work work;
  work.sources = static_cast<unsigned>(given.number("k", 2, 254));
  work.targets = static_cast<unsigned>(given.number("m", 1, 255 - work.sources));
  work.chunk_bytes = given.number("bytes", 1, std::uint64_t{1} << 32, true);
  const auto residence =
      static_cast<Residence>(given.has("residence") ? given.one_of("residence", residences) : 0);
  const auto jobs = given.has("jobs") ? static_cast<unsigned>(given.number("jobs", 0, 1000)) : 0;

  const codec::CostTable& costs = node.costs.table;
  const Router router(node.backend.value_or(BackendChoice::automatic), node.threshold_bytes, costs);
  const std::string cpu = cpu_backend(router, work);
  const Decision decision = router.decide(work, {residence, residence}, jobs);
  std::string why;
  const std::string device = device_name(node, &why);

  std::string on_device = "the only one that can address them", on_cpu = "cannot address them";
  if (residence != Residence::device) {
    const auto us = [](double value) { return fmt::format("{:10.1f} us", value); };
    const auto predicted = codec::device_us(costs, work, residence, jobs);
    on_device = predicted ? us(*predicted) : "no costs for pageable chunks";
    on_cpu = us(codec::cpu_us(costs, work));
  }
  std::string text =
      fmt::format("{}+{}, chunks of {} bytes, {}, {} other call{} on the device\n", work.sources,
                  work.targets, work.chunk_bytes, kernels::name(residence), jobs, jobs == 1 ? "" : "s");
  text += fmt::format("costs: {}\n", node.costs.path.empty() ? "built in" : node.costs.path);
  text += fmt::format("GPU: {}\n", device.empty() ? fmt::format("none ({})", why) : device);
  text +=
      fmt::format("predicted:\n  {:<16} {}\n  {:<16} {}\n", "cuda", on_device, "cpu (" + cpu + ")", on_cpu);
  const std::string reason = because(decision, router, work, node);
  if (!decision.device)
    text += fmt::format("runs: {}; {}\n", cpu, reason);
  else if (!device.empty())
    text += fmt::format("runs: cuda; {}\n", reason);
  else if (decision.reason == Decision::Reason::on_device)
    text += "runs: nothing; chunks lie on a device, and there is none\n";
  else
    text += fmt::format("runs: {}; there is no GPU. With one it would be cuda: {}\n", cpu, reason);
  return text;
}

}  // namespace ec::tools
