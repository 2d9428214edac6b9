// How a check inside the library says no. Never crosses a public door: guarded() makes an Error of it.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "ec/error.hpp"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::library {

struct Refusal : std::exception {
  explicit Refusal(Error why) : error(std::move(why)) {}
  Error error;
};

/// Throws the Refusal with this code, or invalid_argument, and the sentence that fmt makes of the rest.
template <class... Values>
[[noreturn]] void refuse(Errc code, fmt::format_string<Values...> sentence, Values&&... values) {
  throw Refusal(Error(code, fmt::format(sentence, std::forward<Values>(values)...)));
}
template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> sentence, Values&&... values) {
  refuse(Errc::invalid_argument, sentence, std::forward<Values>(values)...);
}

inline void check_technique(int technique) {
  if (technique < 0 || technique > 1)
    refuse("technique={}; allowed are 0 (reed_sol_van), 1 (cauchy)", technique);
}

/// Runs `work`, which returns an Error or what can be made from one, and turns what it throws into an Error.
/// Inlined, since a small call notices what `work` refers to going through memory.
template <class Work>
[[gnu::always_inline]] inline auto guarded(Work&& work) noexcept -> decltype(work()) {
  try {
    try {
      return work();
    } catch (const Refusal& refusal) {
      return refusal.error;
    } catch (const codec::SetupError& error) {
      return Error(Errc::invalid_argument, error.what());
    }
  } catch (const std::exception&) {
    // std::bad_alloc, at work or while the text was made; nothing else is thrown below.
    return Error(Errc::out_of_memory);
  }
}

}  // namespace ec::library
