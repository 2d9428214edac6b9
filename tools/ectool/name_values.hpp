// A question in the form NAME=VALUE...: what ectool explain is asked.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::tools {

/// Everything here throws SetupError(EINVAL) that names the pair and says what is allowed.
class NameValues {
 public:
  NameValues(std::span<const std::string> pairs, std::span<const std::string_view> names) {
    for (const auto& pair : pairs) {
      const auto equals = pair.find('=');
      const std::string name = pair.substr(0, equals);
      if (equals == std::string::npos) throw wrong("{} is not name=value; known are {}", pair, list(names));
      if (std::ranges::count(names, name) == 0) throw wrong("{} is unknown; known are {}", pair, list(names));
      if (!given_.emplace(name, pair.substr(equals + 1)).second) throw wrong("{} is given twice", name);
    }
  }

  bool has(const char* name) const { return given_.contains(name); }
  const std::string& text(const char* name) const {
    const auto at = given_.find(name);
    if (at == given_.end()) throw wrong("{}= is missing", name);
    return at->second;
  }
  std::uint64_t number(const char* name, std::uint64_t lowest, std::uint64_t highest,
                       bool takes_suffix = false) const {
    return codec::parse_number(name, text(name), lowest, highest, takes_suffix);
  }
  /// The index of the value in the list of those that are allowed.
  std::size_t one_of(const char* name, std::span<const std::string_view> allowed) const {
    const auto at = std::ranges::find(allowed, text(name));
    if (at == allowed.end()) throw wrong("{}={} must be one of {}", name, text(name), list(allowed));
    return static_cast<std::size_t>(at - allowed.begin());
  }

 private:
  static std::string list(std::span<const std::string_view> names) {
    return fmt::format("{}", fmt::join(names, ", "));
  }
  template <class... Args>
  static codec::SetupError wrong(fmt::format_string<Args...> text, Args&&... args) {
    return codec::SetupError(EINVAL, fmt::format(text, std::forward<Args>(args)...));
  }

  std::map<std::string, std::string> given_;
};

}  // namespace ec::tools
