// How a check inside the library says no. Never crosses a public door: guarded() makes an Error of it.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "ec/error.hpp"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::library {

class Refusal : public std::exception {
 public:
  Refusal(Errc code, std::string text) : error_(code, std::move(text)) {}
  const Error& error() const noexcept { return error_; }
  const char* what() const noexcept override { return error_.text().c_str(); }

 private:
  Error error_;
};

/// Runs `work`, which returns an Error or what can be made from one, and turns what it throws into an Error.
template <class Work>
auto guarded(Work&& work) noexcept -> decltype(work()) {
  try {
    try {
      return work();
    } catch (const Refusal& refusal) {
      return refusal.error();
    } catch (const codec::SetupError& error) {
      return Error(Errc::invalid_argument, error.what());
    }
  } catch (const std::exception&) {
    // std::bad_alloc, at work or while the text was made; nothing else is thrown below.
    return Error(Errc::out_of_memory);
  }
}

}  // namespace ec::library
