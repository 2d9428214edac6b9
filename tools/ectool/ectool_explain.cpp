// The question out of name=value, and the answer in words.
#include "tools/ectool/ectool_explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "kernels/backends.hpp"
#include "plugin/codec/routing/router.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "tools/ectool/ectool_device.hpp"

namespace ec::tools {
namespace {

using codec::BackendChoice;
using codec::CostTable;
using codec::Decision;
using codec::NodeSettings;
using codec::Router;
using codec::SetupError;
using codec::Work;
using kernels::Residence;

constexpr std::array<std::string_view, 9> names{"k",        "m",       "bytes", "residence", "op",
                                                "erasures", "stripes", "jobs",  "backend"};

SetupError wrong(const std::string& text) { return SetupError(EINVAL, text); }

class Pairs {
 public:
  explicit Pairs(const std::vector<std::string>& pairs) {
    for (const auto& pair : pairs) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos)
        throw wrong(fmt::format("{} is not name=value; known are {}", pair, fmt::join(names, ", ")));
      const std::string name = pair.substr(0, equals);
      if (std::ranges::find(names, name) == names.end())
        throw wrong(fmt::format("{} is unknown; known are {}", pair, fmt::join(names, ", ")));
      if (!given_.emplace(name, pair.substr(equals + 1)).second)
        throw wrong(fmt::format("{} is given twice", name));
    }
  }

  bool has(const char* name) const { return given_.contains(name); }
  const std::string& text(const char* name) const {
    const auto at = given_.find(name);
    if (at == given_.end()) throw wrong(fmt::format("{}= is missing", name));
    return at->second;
  }
  std::uint64_t number(const char* name, std::uint64_t lowest, std::uint64_t highest,
                       bool takes_suffix = false) const {
    return codec::parse_number(name, text(name), lowest, highest, takes_suffix);
  }
  unsigned number_or(const char* name, unsigned fallback, unsigned lowest, unsigned highest) const {
    return has(name) ? static_cast<unsigned>(number(name, lowest, highest)) : fallback;
  }
  std::string text_or(const char* name, const char* fallback) const {
    return has(name) ? text(name) : fallback;
  }

 private:
  std::map<std::string, std::string> given_;
};

/// The call in question.
struct Question {
  std::string op;
  unsigned k, m, erasures, jobs;
  Residence residence;
  BackendChoice choice;
  Work work;
};

Residence residence_of(const std::string& text) {
  for (const auto r : {Residence::pageable, Residence::pinned, Residence::device})
    if (kernels::name(r) == text) return r;
  throw wrong(fmt::format("residence={} must be one of pageable, pinned, device", text));
}

Question parse(const Pairs& pairs, const NodeSettings& node) {
  Question q{};
  q.k = static_cast<unsigned>(pairs.number("k", 2, 254));
  q.m = static_cast<unsigned>(pairs.number("m", 1, 255 - q.k));
  q.residence = residence_of(pairs.text_or("residence", "pageable"));
  q.jobs = pairs.number_or("jobs", 0, 0, 1000);
  q.op = pairs.text_or("op", "encode");
  if (q.op != "encode" && q.op != "decode" && q.op != "update")
    throw wrong(fmt::format("op={} must be one of encode, decode, update", q.op));
  if (q.op != "decode" && pairs.has("erasures"))
    throw wrong(fmt::format("erasures={} goes with op=decode only", pairs.text("erasures")));
  q.erasures = pairs.number_or("erasures", 1, 1, q.m);
  const auto choice = codec::parse_backend_choice(pairs.text_or(
      "backend", std::string(codec::name(node.backend.value_or(BackendChoice::automatic))).c_str()));
  if (!choice)
    throw wrong(
        fmt::format("backend={} must be one of {}", pairs.text("backend"), codec::backend_choice_names));
  q.choice = *choice;
  q.work = {q.op == "update" ? 1 : q.k, q.op == "decode" ? q.erasures : q.m,
            pairs.number("bytes", 1, std::uint64_t{1} << 32, true),
            pairs.number_or("stripes", 1, 1, 1'000'000), q.op == "update"};
  return q;
}

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

std::string because(const Decision& decision, const Question& q, const NodeSettings& node) {
  switch (decision.reason) {
    case Decision::Reason::on_device:
      return "chunks lie on the device, which only the device can address";
    case Decision::Reason::forced:
      return fmt::format("backend={} says so", codec::name(q.choice));
    case Decision::Reason::threshold:
      return fmt::format("EC_CUDA_THRESHOLD={} decides, and all sources together have {} bytes",
                         *node.threshold_bytes, q.work.sources * q.work.chunk_bytes * q.work.stripes);
    case Decision::Reason::pageable_stays:
      return node.threshold_bytes ? "chunks are pageable, and EC_CUDA_THRESHOLD is for pinned ones"
                                  : "chunks are pageable, and there are no costs for those on the device";
    case Decision::Reason::predicted_faster:
      return fmt::format("{:.1f} us are predicted, and {:.1f} us for the other",
                         std::min(decision.device_us, decision.cpu_us),
                         std::max(decision.device_us, decision.cpu_us));
  }
  return {};
}

std::string us(double value) { return fmt::format("{:10.1f} us", value); }

std::string describe(const Question& q) {
  return fmt::format("{} {}+{}{}, chunks of {} bytes, {}, {} in a call, {} other call{} on the device\n",
                     q.op, q.k, q.m, q.op == "decode" ? fmt::format(", {} lost", q.erasures) : "",
                     q.work.chunk_bytes, kernels::name(q.residence),
                     q.work.stripes == 1 ? "one stripe" : fmt::format("{} stripes", q.work.stripes), q.jobs,
                     q.jobs == 1 ? "" : "s");
}

std::string candidates(const Question& q, const CostTable& costs, const std::string& cpu) {
  std::string on_device = "the only one that can address them", on_cpu = "cannot address them";
  if (q.residence != Residence::device) {
    const auto predicted = codec::device_us(costs, q.work, q.residence, q.jobs);
    on_device = predicted ? us(*predicted) : "no costs for pageable chunks";
    on_cpu = us(codec::cpu_us(costs, q.work));
  }
  return fmt::format("predicted:\n  {:<16} {}\n  {:<16} {}\n", "cuda", on_device, "cpu (" + cpu + ")",
                     on_cpu);
}

}  // namespace

const char* const explain_help =
    "explain takes name=value:\n"
    "  k, m             the code; k at least 2, m at least 1, k+m at most 255\n"
    "  bytes            of one chunk, 1 to 4G; suffixes K, M, G (powers of 1024)\n"
    "  residence        pageable, pinned or device [pageable]\n"
    "  op               encode, decode or update [encode]\n"
    "  erasures         with op=decode: chunks to make, 1 to m [1]\n"
    "  stripes          in one call [1]\n"
    "  jobs             other calls on the device meanwhile [0]\n"
    "  backend          auto, cpu, gpu, x86, isal, reference [EC_CUDA_BACKEND or auto]\n";

std::string explain(const std::vector<std::string>& pairs, const NodeSettings& node) {
  const Question q = parse(Pairs(pairs), node);
  const Router router(q.choice, node.threshold_bytes, node.costs.table);
  const std::string cpu = cpu_backend(router, q.work);
  const Decision decision = router.decide(q.work, {q.residence, q.residence}, q.jobs);
  std::string why;
  const std::string device = device_name(node, &why);

  std::string text = describe(q);
  text += fmt::format("costs: {}\n", node.costs.path.empty() ? "built in" : node.costs.path);
  text += fmt::format("GPU: {}\n", device.empty() ? fmt::format("none ({})", why) : device);
  text += candidates(q, node.costs.table, cpu);
  const std::string reason = because(decision, q, node);
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
