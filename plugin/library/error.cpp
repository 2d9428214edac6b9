// The category of the library's errors.
#include "ec/error.hpp"

#include <algorithm>
#include <new>

#include "plugin/library/refusal.hpp"
#include "support/process_life.hpp"

namespace ec {
namespace {

/// The message of a code, and a text that fits into a string without memory.
constexpr struct {
  Errc code;
  const char *message, *without_memory;
} texts[] = {
    {Errc::invalid_argument, "invalid argument", "no memory"},
    {Errc::too_few_chunks, "fewer than k chunks are available", "no memory"},
    {Errc::no_device, "no device for chunks in device memory", "no device"},
    {Errc::busy, "the device is busy", "device busy"},
    {Errc::device_fault, "the device failed", "device failed"},
    {Errc::device_hung, "the device stopped answering", "device hung"},
    {Errc::out_of_memory, "out of memory", "no memory"},
    {Errc::chunks_disagree, "the chunks available disagree", "disagreement"},
};

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "ec"; }
  std::string message(int code) const override {
    for (const auto& text : texts)
      if (static_cast<int>(text.code) == code) return text.message;
    return "unknown error";
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    return {code, std::generic_category()};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static constinit NeverDestroyed<Category> category;
  return category.value;
}

std::error_code make_error_code(Errc code) noexcept { return {static_cast<int>(code), error_category()}; }

namespace library {

Failure::operator Error() const noexcept {
  try {
    return Error(code, text.c_str());
  } catch (const std::bad_alloc&) {
    const auto* const text = std::ranges::find(texts, code, [](const auto& t) { return t.code; });
    return Error(code, text->without_memory);
  }
}

}  // namespace library
}  // namespace ec
