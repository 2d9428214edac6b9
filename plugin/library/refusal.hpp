// How a check inside the library refuses a call. Never crosses a public door: guarded() makes an Error of it.
#pragma once

#include <fmt/ranges.h>

#include <exception>
#include <utility>

#include "ec/error.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "support/text.hpp"

namespace ec::library {

/// An error: a plain value, which no want of memory turns into another.
struct Failure {
  Errc code;
  support::Text<1535> text;  ///< has room for the numbers of all chunks
  /// With the text, or less of it where memory is short.
  operator Error() const noexcept;  // NOLINT: the form of the error at the C++ door
};

/// Only thrown before the first byte is written: a throw takes memory, at most the part kept back for it.
struct Refusal : std::exception {
  explicit Refusal(const Failure& why) noexcept : failure(why) {}
  Failure failure;
};

/// Throws the Refusal with this code, or invalid_argument, and the sentence that fmt makes of the rest.
template <class... Values>
[[noreturn]] void refuse(Errc code, fmt::format_string<Values...> sentence, Values&&... values) {
  throw Refusal({code, {sentence, std::forward<Values>(values)...}});
}
template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> sentence, Values&&... values) {
  refuse(Errc::invalid_argument, sentence, std::forward<Values>(values)...);
}

inline void check_technique(int technique) {
  if (technique < 0 || technique > 1)
    refuse("technique={}; allowed are 0 (reed_sol_van), 1 (cauchy)", technique);
}

/// Runs `work`; makes its return value of a Failure if `work` throws. Inlined, since a small call
/// notices if the captures of `work` go through memory.
template <class Work>
[[gnu::always_inline]] inline auto guarded(Work&& work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const Refusal& refusal) {
    return static_cast<decltype(work())>(refusal.failure);
  } catch (const codec::SetupError& error) {
    return static_cast<decltype(work())>(Failure{Errc::invalid_argument, error.what()});
  } catch (const std::exception&) {
    // std::bad_alloc, before anything is written; nothing else is thrown below.
    return static_cast<decltype(work())>(Failure{Errc::out_of_memory, "out of memory"});
  }
}

}  // namespace ec::library
