#include "bench/common/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <optional>
#include <sstream>

namespace ec::bench {
namespace {

namespace po = boost::program_options;

constexpr std::size_t chunk_granularity = 32;
constexpr std::size_t largest_size = std::size_t{1} << 31;

UsageError refuse(const std::string& option, std::string_view value, const std::string& allowed) {
  return UsageError(fmt::format("--{} {}: must be {}", option, value, allowed));
}

std::optional<std::size_t> parse_number(std::string_view text, bool takes_suffix) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return std::nullopt;
  if (rest == end) return value;
  const unsigned shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;
  if (!takes_suffix || rest + 1 != end || shift == 0 || value > SIZE_MAX >> shift) return std::nullopt;
  return value << shift;
}

}  // namespace

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
    if (parts.back().empty()) throw refuse(option, text, "a list without empty entries, separated by commas");
  }
  return parts;
}

std::size_t parse_whole(const std::string& option, const std::string& text, std::size_t lowest,
                        std::size_t highest, bool takes_suffix) {
  const auto value = parse_number(text, takes_suffix);
  if (!value || *value < lowest || *value > highest)
    throw refuse(option, text,
                 fmt::format("a whole number from {} to {}{}", lowest, highest,
                             takes_suffix ? ", in bytes or with the suffix K, M or G (powers of 1024)" : ""));
  return *value;
}

std::pair<unsigned, unsigned> parse_shape(const std::string& text) {
  const std::size_t plus = text.find('+');
  const auto k = parse_number(text.substr(0, plus), false);
  const auto m = plus == std::string::npos ? std::nullopt : parse_number(text.substr(plus + 1), false);
  if (!k || !m || *k < 1 || *m < 1 || *k + *m > gf::max_chunks)
    throw refuse("shapes", text,
                 fmt::format("K+M with K and M at least 1 and at most {} in all, as 4+2", gf::max_chunks));
  return {static_cast<unsigned>(*k), static_cast<unsigned>(*m)};
}

namespace {

std::string one_of(const std::string& option, const std::string& text,
                   const std::vector<std::string>& allowed) {
  if (std::ranges::find(allowed, text) == allowed.end())
    throw refuse(option, text, fmt::format("one of {}", fmt::join(allowed, ", ")));
  return text;
}

po::options_description describe(const Subcommand& sub) {
  po::options_description known(fmt::format("ec_bench {} [options]; lists are separated by commas", sub.name),
                                110, 80);
  const auto text = [](const std::string& fallback) {
    return po::value<std::string>()->default_value(fallback);
  };
  const auto add = [&](const std::string& option, const std::string& fallback, const std::string& what) {
    known.add_options()(option.c_str(), text(fallback), what.c_str());
  };
  add(sub.contestants_option, sub.contestants_default, sub.contestants_help);
  add("ops", sub.ops.front(), fmt::format("operations: {}", fmt::join(sub.ops, ", ")));
  add("techniques", "reed_sol_van", fmt::format("techniques: {}", gf::technique_names));
  add("shapes", "4+2,8+3,10+4", "data+coding chunks");
  add("sizes", "16K,256K,4M,64M", "object bytes of one stripe (k x chunk, before padding), suffixes K, M, G");
  add("erasures", "", "chunks lost, the first data chunks; default m");
  add("threads", "1", "threads, each coding stripes of its own");
  add("cache", "warm",
      "warm: every thread codes one stripe over and over; cold: stripes of a pool of --cold-bytes");
  add("cold-bytes", "",
      "object bytes in the pool of a cold run; default twice the last-level cache, 256M at least");
  add("pieces", "1", "buffers that an object comes in (ceph)");
  add("rounds", "15", "samples of each contestant, taken in turn");
  add("sample-ms", "10", "shortest time of a sample");
  add("clock", "wall", "wall: time that passes; cpu: CPU time, for a machine that others use too");
  known.add_options()("json", po::value<std::string>()->default_value(""),
                      "write the report to this file too");
  known.add_options()("help", "this text");
  return known;
}

std::size_t default_cold_bytes() { return std::max(std::size_t{256} << 20, 2 * last_level_cache_bytes()); }

}  // namespace

std::size_t last_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

Options parse_options(const Subcommand& sub, const std::vector<std::string>& arguments) {
  const auto known = describe(sub);
  po::variables_map given;
  try {
    po::store(po::command_line_parser(arguments).options(known).positional({}).run(), given);
  } catch (const po::error& e) {
    throw UsageError(fmt::format("{}; see ec_bench {} --help", e.what(), sub.name));
  }
  Options o;
  o.help = given.contains("help");
  o.help_text = fmt::format("{}", (std::ostringstream() << known).str());
  const auto text = [&](const std::string& option) { return given[option].as<std::string>(); };
  const auto each = [&](const std::string& option, auto&& take) {
    for (const auto& part : split_list(option, text(option))) take(part);
  };
  o.contestants = split_list(sub.contestants_option, text(sub.contestants_option));
  each("ops", [&](const auto& part) { o.ops.push_back(one_of("ops", part, sub.ops)); });
  each("techniques", [&](const auto& part) {
    const auto technique = gf::parse_technique(part);
    if (!technique) throw refuse("techniques", part, fmt::format("one of {}", gf::technique_names));
    o.techniques.push_back(*technique);
  });
  each("shapes", [&](const auto& part) { o.shapes.push_back(parse_shape(part)); });
  each("sizes",
       [&](const auto& part) { o.sizes.push_back(parse_whole("sizes", part, 1, largest_size, true)); });
  if (!text("erasures").empty())
    each("erasures", [&](const auto& part) {
      o.erasures.push_back(static_cast<unsigned>(parse_whole("erasures", part, 1, gf::max_chunks)));
    });
  each("threads", [&](const auto& part) {
    o.threads.push_back(static_cast<unsigned>(parse_whole("threads", part, 1, 1024)));
  });
  each("cache", [&](const auto& part) {
    o.cold.push_back(one_of("cache", part, {"warm", "cold"}) == "cold");
  });
  o.cold_bytes = text("cold-bytes").empty()
                     ? default_cold_bytes()
                     : parse_whole("cold-bytes", text("cold-bytes"), 1, std::size_t{1} << 40, true);
  o.pieces = static_cast<unsigned>(parse_whole("pieces", text("pieces"), 1, 4096));
  o.pace.rounds = static_cast<unsigned>(parse_whole("rounds", text("rounds"), 1, 100'000));
  o.pace.sample_seconds = 1e-3 * static_cast<double>(parse_whole("sample-ms", text("sample-ms"), 0, 600'000));
  o.pace.clock = one_of("clock", text("clock"), {"wall", "cpu"}) == "cpu" ? ClockKind::cpu : ClockKind::wall;
  o.json_file = text("json");
  return o;
}

std::vector<Case> cases_of(const Options& o) {
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    for (std::size_t size : o.sizes)
      for (unsigned threads : o.threads)
        for (bool cold : o.cold) {
          c.object_bytes = size;
          const std::size_t chunk = (size + c.k - 1) / c.k;
          c.chunk_bytes = (chunk + chunk_granularity - 1) / chunk_granularity * chunk_granularity;
          c.threads = threads;
          c.cold = cold;
          const std::size_t per_thread = cold ? std::max<std::size_t>(2, o.cold_bytes / (size * threads)) : 1;
          c.stripes = per_thread * threads;
          c.pieces = o.pieces;
          cases.push_back(c);
        }
  };
  for (const auto& op : o.ops)
    for (auto technique : o.techniques)
      for (auto [k, m] : o.shapes) {
        if (const auto error = gf::shape_error(technique, k, m); !error.empty())
          throw UsageError(fmt::format("--shapes {}+{}: {}", k, m, error));
        Case c{.op = op, .technique = technique, .k = k, .m = m};
        const bool loses = op == "decode" || op == "degraded-read";
        const auto counts = !loses               ? std::vector<unsigned>{0}
                            : o.erasures.empty() ? std::vector<unsigned>{m}
                                                 : o.erasures;
        for (unsigned erasures : counts) {
          if (erasures > std::min(k, m))
            throw refuse("erasures", std::to_string(erasures),
                         fmt::format("at most {} for {}+{}", std::min(k, m), k, m));
          c.erasures = erasures;
          add(c);
        }
      }
  return cases;
}

}  // namespace ec::bench
