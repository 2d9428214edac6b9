// The category of the library's errors.
#include "ec/error.hpp"

#include <new>

#include "plugin/library/refusal.hpp"
#include "support/process_life.hpp"

namespace ec {
namespace {

constexpr std::pair<Errc, const char*> texts[] = {
    {Errc::invalid_argument, "invalid argument"},
    {Errc::too_few_chunks, "fewer than k chunks are available"},
    {Errc::no_device, "no device for chunks in device memory"},
    {Errc::busy, "the device is busy"},
    {Errc::device_fault, "the device failed"},
    {Errc::device_hung, "the device stopped answering"},
    {Errc::out_of_memory, "out of memory"},
    {Errc::chunks_disagree, "the chunks available disagree"},
};

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "ec"; }
  std::string message(int code) const override {
    for (const auto& [known, text] : texts)
      if (static_cast<int>(known) == code) return text;
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
    // A text that fits into a string without memory.
    return Error(code, code == Errc::device_hung       ? "device hung"
                       : code == Errc::device_fault    ? "device failed"
                       : code == Errc::busy            ? "device busy"
                       : code == Errc::no_device       ? "no device"
                       : code == Errc::chunks_disagree ? "disagreement"
                                                       : "no memory");
  }
}

}  // namespace library
}  // namespace ec
