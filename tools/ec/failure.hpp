// How a command ends.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ec::file {

/// The exit status. A signal that ends the program shows as such.
enum class Status : int {
  ok = 0,
  failure = 1,  ///< of input or output, of memory, or nothing was found
  usage = 2,
  damaged = 3,  ///< and can be repaired
  lost = 4      ///< more than m blocks of a stripe
};

struct Failure : std::runtime_error {
  Failure(Status status_, const std::string& what) : std::runtime_error(what), status(status_) {}
  Status status;
};

template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> what, Args&&... args) {
  throw Failure(status, fmt::format(what, std::forward<Args>(args)...));
}

}  // namespace ec::file
