// Errors of the library by code and by text. No call of the library throws, but Result::value(), and the
// caller's own allocator while a Result or an Error is copied.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "ec/export.h"

namespace ec {

/// Each is the errno of the same meaning, so that the C interface returns it negated and
/// `error.code() == std::errc::...` holds. After an error of Accumulator::end the targets hold anything.
enum class Errc : int {
  invalid_argument = EINVAL,  ///< The caller's mistake, or a wrong EC_CUDA_ variable; nothing was written.
  too_few_chunks = ENODATA,   ///< The available chunks do not give the wanted ones; nothing was written.
  no_device = ENODEV,       ///< Chunks in device memory, and no device that takes them; nothing was written.
  busy = EBUSY,             ///< Chunks in device memory, and no room: try again, see the text.
  device_fault = EIO,       ///< The device failed on chunks in its memory, and has stopped writing.
  device_hung = ETIMEDOUT,  ///< The device stopped answering: pinned or device targets may yet be written.
  out_of_memory = ENOMEM,   ///< Nothing was written, and nothing is enqueued.
  chunks_disagree = EBADMSG,  ///< checked_decode: an available chunk is wrong; nothing was written.
};

/// Category "ec"; each code's default condition is the std::errc of the same number.
ECCODER_EXPORT const std::error_category& error_category() noexcept;
ECCODER_EXPORT std::error_code make_error_code(Errc code) noexcept;

/// The result of a call: nothing, or a code with a sentence that names the parameter, its value and the
/// allowed ones. True if there is an error, as std::error_code.
class [[nodiscard]] Error {
 public:
  Error() noexcept = default;
  explicit Error(Errc code, std::string text = {}) noexcept
      : code_(make_error_code(code)), text_(std::move(text)) {}

  explicit operator bool() const noexcept { return static_cast<bool>(code_); }
  std::error_code code() const noexcept { return code_; }
  /// For people, in English; empty if there is no error. Without memory for a sentence it is a word or
  /// two: the code never depends on memory.
  const std::string& text() const noexcept { return text_; }

 private:
  std::error_code code_;
  std::string text_;
};

/// A value or the error in its place: the part of C++23's std::expected<T, Error> that is used here.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}               // NOLINT: as expected
  Result(Error error) noexcept : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: as expected

  bool has_value() const noexcept { return held_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// Only if has_value().
  T& operator*() & noexcept { return *std::get_if<0>(&held_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&held_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&held_)); }
  T* operator->() noexcept { return std::get_if<0>(&held_); }
  const T* operator->() const noexcept { return std::get_if<0>(&held_); }
  /// Only if not has_value().
  const Error& error() const noexcept { return *std::get_if<1>(&held_); }

  /// The value; for programs that use exceptions: throws std::system_error with code and text.
  T& value() & {
    check();
    return **this;
  }
  const T& value() const& {
    check();
    return **this;
  }
  T value() && {
    check();
    return std::move(**this);
  }

 private:
  void check() const {
    if (!has_value()) throw std::system_error(error().code(), error().text());
  }

  std::variant<T, Error> held_;
};

}  // namespace ec

template <>
struct std::is_error_code_enum<ec::Errc> : std::true_type {};
