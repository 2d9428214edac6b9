// A sentence that needs no memory, so that no result depends on free memory.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#if FMT_VERSION < 110000
FMT_BEGIN_NAMESPACE
namespace detail {
// In fmt.cpp; the headers of fmt leave this one to be compiled in every file that calls it.
extern template void vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                      basic_format_args<format_context>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
#endif

namespace ec::support {

/// Up to `most` characters in place; a longer sentence is cut. Making, copying and reading a text allocates
/// nothing and throws nothing.
template <std::size_t most>
class Text {
 public:
  constexpr Text() noexcept = default;
  Text(std::string_view text) noexcept : Text("{}", text) {}         // NOLINT: a text is a text
  Text(const char* text) noexcept : Text(std::string_view(text)) {}  // NOLINT: the same
  template <class First, class... Values>
  Text(fmt::format_string<First, Values...> sentence, First&& first, Values&&... values) noexcept {
    *fmt::format_to_n(text_.data(), most, sentence, std::forward<First>(first),
                      std::forward<Values>(values)...)
         .out = '\0';
  }

  bool empty() const noexcept { return text_[0] == '\0'; }
  std::string_view view() const noexcept { return text_.data(); }
  const char* c_str() const noexcept { return text_.data(); }
  friend bool operator==(const Text& a, std::string_view b) noexcept { return a.view() == b; }

 private:
  std::array<char, most + 1> text_{'\0'};
};

}  // namespace ec::support
