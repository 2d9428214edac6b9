// Parses and checks the command line of a sub-command.
#include "bench/common/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <optional>

namespace ec::bench {
namespace {

namespace po = boost::program_options;

UsageError refuse(const std::string& option, std::string_view value, const std::string& allowed) {
  return UsageError(fmt::format("--{} {}: must be {}", option, value, allowed));
}

std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return std::nullopt;
  if (rest == end) return value;
  const unsigned shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;
  if (rest + 1 != end || shift == 0 || value > SIZE_MAX >> shift) return std::nullopt;
  return value << shift;
}

std::size_t number_of(const std::string& option, const std::string& text, std::size_t lowest,
                      std::size_t highest) {
  const auto value = parse_number(text);
  if (!value || *value < lowest || *value > highest)
    throw refuse(
        option, text,
        fmt::format("a whole number from {} to {}; K, M or G behind it are powers of 1024", lowest, highest));
  return *value;
}

}  // namespace

int run(const Subcommand& subcommand, const std::vector<std::string>& arguments) try {
  po::options_description known(
      fmt::format("ec_bench {} [options]; lists are separated by commas or spaces", subcommand.name), 110,
      80);
  known.add_options()("help,h", "this text");
  const auto add = [&](const Option& option) {
    auto* value = po::value<std::vector<std::string>>()->multitoken()->composing();
    value->default_value({option.fallback}, option.fallback);
    known.add_options()(option.name.c_str(), value, option.help.c_str());
  };
  std::ranges::for_each(subcommand.options, add);
  add({"csv", "", "write the report to this file too"});
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(known).positional({}).run(), given);
  if (!given.contains("help")) return subcommand.body({subcommand, arguments, given});
  std::cout << known << std::flush;
  if (!std::cout) throw std::runtime_error("standard output cannot be written");
  return 0;
} catch (const po::error& e) {
  fmt::print(stderr, "ec_bench: {}; see ec_bench {} --help\n", e.what(), subcommand.name);
  return 2;
} catch (const std::exception& e) {
  fmt::print(stderr, "ec_bench: {}\n", e.what());
  return dynamic_cast<const UsageError*>(&e) != nullptr ? 2 : 1;
}

std::string CommandLine::typed() const {
  std::vector<std::string> words;
  for (const char* prefix : {"EC_CUDA_", "GLIBC_TUNABLES=", "LD_PRELOAD=", "MALLOC_", "TCMALLOC_"})
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (std::string_view(*variable).starts_with(prefix)) words.emplace_back(*variable);
  std::ranges::sort(words);
  words.insert(words.end(), {"ec_bench", subcommand_});
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  return fmt::format("{}", fmt::join(words, " "));
}

std::string CommandLine::joined(const std::string& option) const {
  return fmt::format("{}", fmt::join(given_[option].as<std::vector<std::string>>(), ","));
}

std::string CommandLine::text(const std::string& option, const std::vector<std::string>& allowed) const {
  const auto values = allowed.empty() ? given_[option].as<std::vector<std::string>>() : list(option, allowed);
  if (values.size() != 1 || (given(option) && values.front().empty()))
    throw refuse(option, joined(option), "one value");
  return values.front();
}

std::size_t CommandLine::number(const std::string& option, std::size_t lowest, std::size_t highest) const {
  return number_of(option, text(option), lowest, highest);
}

std::vector<std::string> CommandLine::list(const std::string& option,
                                           const std::vector<std::string>& allowed) const {
  const std::string text = joined(option);
  if (!given(option) && text.empty()) return allowed;
  std::vector<std::string> parts;
  boost::split(parts, text, boost::is_any_of(","));
  for (const auto& part : parts)
    if (part.empty())
      throw refuse(option, text, "a list without empty entries");
    else if (!allowed.empty() && std::ranges::find(allowed, part) == allowed.end())
      throw refuse(option, part, fmt::format("one of {}", fmt::join(allowed, ", ")));
  return parts;
}

std::vector<std::size_t> CommandLine::numbers(const std::string& option, std::size_t lowest,
                                              std::size_t highest, std::size_t multiple_of) const {
  std::vector<std::size_t> values;
  for (const auto& part : list(option)) {
    values.push_back(number_of(option, part, lowest, highest));
    if (values.back() % multiple_of != 0)
      throw refuse(option, part, fmt::format("a multiple of {}", multiple_of));
  }
  return values;
}

std::vector<Shape> CommandLine::shapes(const std::string& option) const {
  std::vector<Shape> values;
  for (const auto& part : list(option)) {
    const std::size_t plus = std::min(part.find('+'), part.size());
    const auto k = parse_number(part.substr(0, plus));
    const auto m = parse_number(part.substr(std::min(plus + 1, part.size())));
    if (!k || !m || *k < 1 || *m < 1 || *k > gf::max_chunks || *k + *m > gf::max_chunks)
      throw refuse(option, part,
                   fmt::format("K+M with K and M at least 1 and at most {} in all, as 4+2", gf::max_chunks));
    values.emplace_back(*k, *m);
  }
  return values;
}

gf::Technique require_shape(gf::Technique technique, Shape shape) {
  const auto [k, m] = shape;
  if (const auto error = gf::shape_error(technique, k, m); !error.empty())
    throw UsageError(fmt::format("--shapes {}+{}: {}", k, m, error));
  return technique;
}

gf::Technique technique_for(Shape shape) {
  const bool fits = gf::shape_error(gf::Technique::reed_sol_van, shape.first, shape.second).empty();
  return require_shape(fits ? gf::Technique::reed_sol_van : gf::Technique::cauchy, shape);
}

}  // namespace ec::bench
