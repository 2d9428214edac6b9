#include "bench/kernels/kernel_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <boost/program_options.hpp>
#include <charconv>
#include <sstream>

#include "bench/common/options.hpp"
#include "bench/kernels/xor_args.hpp"

namespace ec::bench {
namespace {

namespace po = boost::program_options;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  if (!text.empty()) boost::split(parts, text, boost::is_any_of(","));
  return parts;
}

std::size_t number(const std::string& option, std::string text, std::size_t lowest, std::size_t highest) {
  const char last = text.empty() ? '\0' : text.back();
  const unsigned shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
  if (shift != 0) text.pop_back();
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > highest >> shift ||
      value << shift < lowest)
    throw UsageError(fmt::format("--{} {}: must be from {} to {}, with K, M or G for powers of 1024", option,
                                 text + (shift != 0 ? std::string(1, last) : ""), lowest, highest));
  return value << shift;
}

std::pair<unsigned, unsigned> shape(const std::string& text) {
  const auto parts = [&] {
    std::vector<std::string> p;
    boost::split(p, text, boost::is_any_of("+"));
    return p;
  }();
  if (parts.size() != 2) throw UsageError(fmt::format("--shapes {}: must be K+M, as 10+4", text));
  const auto k = number("shapes", parts[0], 1, gf::max_chunks - 1);
  const auto m = number("shapes", parts[1], 1, gf::max_chunks - k);
  return {static_cast<unsigned>(k), static_cast<unsigned>(m)};
}

/// What decode has lost: data chunks, coding chunks, or as many of these as of those and one more of those.
enum class Lost { data, coding, mixed };

Lost lost_of(const std::string& text) {
  if (text == "data") return Lost::data;
  if (text == "coding") return Lost::coding;
  if (text == "mixed") return Lost::mixed;
  throw UsageError(fmt::format("--lost {}: must be data, coding or mixed", text));
}

KernelCase make_case(bool decode, std::pair<unsigned, unsigned> shape, unsigned erasures,
                     std::size_t chunk_bytes, std::size_t stripes, std::size_t total_bytes,
                     Lost lost = Lost::data) {
  KernelCase c{.decode = decode, .k = shape.first, .m = shape.second, .stripes = stripes};
  // Shapes that the Vandermonde matrix does not have.
  if (!gf::shape_error(c.technique, c.k, c.m).empty()) c.technique = gf::Technique::cauchy;
  c.erasures = decode ? std::min({erasures, c.m, c.k}) : 0;
  c.lost_coding = lost == Lost::data ? 0 : lost == Lost::coding ? c.erasures : c.erasures / 2;
  constexpr std::size_t granule = std::size_t{64} << 10;
  const std::size_t fitting = total_bytes / (c.k + c.targets()) / stripes;
  c.chunk_bytes =
      chunk_bytes != 0 ? chunk_bytes : std::max<std::size_t>(fitting / granule * granule, xor_tile);
  return c;
}

std::vector<KernelCase> documented_cases(std::size_t total) {
  std::vector<KernelCase> cases;
  const std::pair<unsigned, unsigned> shapes[] = {{4, 2},  {6, 3},  {8, 3},  {8, 4},   {10, 4},  {12, 4},
                                                  {16, 4}, {20, 4}, {32, 8}, {64, 16}, {128, 32}};
  for (const auto& s : shapes) cases.push_back(make_case(false, s, 0, 0, 1, total));
  for (const auto& s : shapes)
    if (s.first <= 32) {
      for (const unsigned erasures : {1u, s.second})
        cases.push_back(make_case(true, s, erasures, 0, 1, total));
      cases.push_back(make_case(true, s, 1, 0, 1, total, Lost::coding));
      cases.push_back(make_case(true, s, s.second, 0, 1, total, Lost::mixed));
    }
  // Without the row of ones of reed_sol_van.
  for (const auto& s : {shapes[2], shapes[4], shapes[7]}) {
    cases.push_back(make_case(false, s, 0, 0, 1, total));
    cases.back().technique = gf::Technique::cauchy;
  }
  for (std::size_t chunk = 16 << 10; chunk <= std::min<std::size_t>(64 << 20, total / 14); chunk *= 4)
    cases.push_back(make_case(false, {10, 4}, 0, chunk, 1, total));  // 1 MiB among them
  cases.push_back(make_case(false, {8, 3}, 0, 4096, 4096, total));
  return cases;
}

}  // namespace

KernelOptions parse_kernel_options(const std::vector<std::string>& arguments) {
  po::options_description known("ec_bench kernels [options]; lists are separated by commas", 110, 80);
  const auto text = [](const char* fallback) { return po::value<std::string>()->default_value(fallback); };
  known.add_options()("kernels", text(""), "names as in the report; default all")(
      "shapes", text(""), "data+coding chunks, as 8+3,10+4")(
      "ops", text(""), "encode, decode; default encode")("erasures", text(""),
                                                         "chunks that decode makes; default m")(
      "lost", text("data"), "which ones decode makes: data, coding, mixed")(
      "chunk", text(""), "bytes of a chunk, multiples of 1024; default: what makes --total")(
      "stripes", text("1"), "stripes coded by one launch")("total", text("1536M"),
                                                           "bytes moved by a run where --chunk is not given")(
      "runs", text("13"), "timed runs of each kernel")("json", text(""), "write the report to this file too")(
      "help", "this text");
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(known).positional({}).run(), given);
  } catch (const po::error& e) {
    throw UsageError(fmt::format("{}; see ec_bench kernels --help", e.what()));
  }
  const auto value = [&](const char* option) { return given[option].as<std::string>(); };
  KernelOptions o;
  if (given.contains("help")) o.help = (std::ostringstream() << known).str();
  o.kernels = split(value("kernels"));
  o.json_file = value("json");
  o.total_bytes = number("total", value("total"), 1 << 20, std::size_t{32} << 30);
  o.runs = static_cast<unsigned>(number("runs", value("runs"), 3, 1000));
  const auto lost = lost_of(value("lost"));
  const std::size_t stripes = number("stripes", value("stripes"), 1, 1 << 20);
  if (value("shapes").empty() && value("ops").empty() && value("chunk").empty() && stripes == 1) {
    o.cases = documented_cases(o.total_bytes);
    return o;
  }
  auto shapes = split(value("shapes"));
  if (shapes.empty()) shapes = {"8+3", "10+4"};
  auto ops = split(value("ops"));
  if (ops.empty()) ops = {"encode"};
  std::vector<std::size_t> chunks;
  for (const auto& c : split(value("chunk"))) {
    chunks.push_back(number("chunk", c, xor_tile, std::size_t{4} << 30));
    if (chunks.back() % xor_tile != 0)
      throw UsageError(fmt::format("--chunk {}: must be a multiple of {}", c, xor_tile));
  }
  if (chunks.empty()) chunks = {0};
  for (const auto& op : ops) {
    if (op != "encode" && op != "decode")
      throw UsageError(fmt::format("--ops {}: must be encode or decode", op));
    for (const auto& s : shapes)
      for (const std::size_t chunk : chunks) {
        const auto km = shape(s);
        std::vector<std::string> erasures = split(value("erasures"));
        if (erasures.empty() || op == "encode") erasures = {std::to_string(km.second)};
        for (const auto& e : erasures)
          o.cases.push_back(make_case(op == "decode", km,
                                      static_cast<unsigned>(number("erasures", e, 1, gf::max_chunks)), chunk,
                                      stripes, o.total_bytes, lost));
      }
  }
  return o;
}

}  // namespace ec::bench
