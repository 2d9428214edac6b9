// Text of unknown origin, made safe to show: a terminal obeys escape sequences, and JSON takes only UTF-8.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace ec::tools {

/// '?' in the place of all that is not a printable character of ASCII.
inline void make_printable(std::string& text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
}

/// The same up to the first zero, which is there afterwards, with nothing but zeros after it.
template <std::size_t n>
void make_printable(std::array<char, n>& text) {
  const auto end = std::find(text.begin(), text.end() - 1, '\0');
  std::replace_if(
      text.begin(), end, [](char c) { return c < ' ' || c > '~'; }, '?');
  std::fill(end, text.end(), '\0');
}

}  // namespace ec::tools
