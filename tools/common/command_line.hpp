// The command line of a program that has commands: PROGRAM COMMAND [OPTION].. [WORD]..
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/printable.hpp"

namespace ec::tools {

namespace options = boost::program_options;
/// A wrong command line: exit status 2.
using UsageError = options::error;

template <class Function>
struct Command {
  std::string_view name;
  Function* run;
  std::string_view options;  ///< Each between spaces. What no command lists, all take.

  bool lists(const std::string& option) const {
    return options.find(" " + option + " ") != std::string_view::npos;
  }
};

/// An option that has no value unless it is given.
template <class Value>
auto* optional(std::optional<Value>* to) {
  return options::value<Value>()->notifier([to](const Value& said) { *to = said; });
}

/// Throws std::runtime_error where standard output does not take all.
inline void flush_output() {
  if (!std::cout.flush()) throw std::runtime_error("standard output cannot be written");
}

/// The command that the line calls, with its options stored where `described` says; null if --help or
/// --version was answered. `program`: its name and version. Throws UsageError, and what notifiers of options
/// throw.
template <class Function, std::size_t n>
const Command<Function>* parse(int argc, char** argv, options::options_description described,
                               std::vector<std::string>* words, const Command<Function> (&commands)[n],
                               std::string_view program, std::string_view more_help) {
  std::string names;
  for (const auto& each : commands) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  described.add_options()("help,h", "this text")("version", "the version");
  options::options_description all;
  all.add(described).add_options()("command", options::value<std::string>())("words", options::value(words));
  options::positional_options_description positional;
  positional.add("command", 1).add("words", -1);
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.contains("help")) std::cout << described << '\n' << more_help;
  if (given.contains("version")) std::cout << program << '\n';
  flush_output();
  if (given.contains("help") || given.contains("version")) return nullptr;
  if (!given.contains("command")) throw UsageError("a command is missing: " + names + "; see --help");
  const auto& name = given["command"].as<std::string>();
  const auto* const command = std::ranges::find(commands, name, &Command<Function>::name);
  if (command == std::end(commands)) throw UsageError("unknown command " + name + ": " + names);
  for (const auto& option : given)
    if (!option.second.defaulted() && !command->lists(option.first) &&
        std::ranges::any_of(commands, [&](const auto& other) { return other.lists(option.first); }))
      throw UsageError(name + " takes no --" + option.first);
  options::notify(given);
  return command;
}

}  // namespace ec::tools
