// The exception of set-up code: an errno and a sentence for the operator. Never crosses a host's door.
#pragma once

#include <stdexcept>
#include <string>

namespace ec::codec {

class SetupError : public std::runtime_error {
 public:
  /// code: a positive errno value. text names the parameter, its value and the allowed ones.
  SetupError(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

}  // namespace ec::codec
