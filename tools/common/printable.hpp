// Text of unknown origin, made safe to show: a terminal obeys escape sequences, and JSON takes only UTF-8.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace ec::tools {

/// The text with '?' in the place of all that is not a printable character of ASCII.
inline std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// The same of the text up to its first zero.
template <std::size_t n>
std::string printable(const std::array<char, n>& text) {
  return printable(std::string(text.begin(), std::ranges::find(text, '\0')));
}

}  // namespace ec::tools
