// The category of the library's errors.
#include "ec/error.hpp"

#include <cstddef>
#include <new>

namespace ec {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "ec"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::invalid_argument:
        return "invalid argument";
      case Errc::too_few_chunks:
        return "fewer than k chunks are available";
      case Errc::no_device:
        return "no device for chunks in device memory";
      case Errc::busy:
        return "the device is busy";
      case Errc::device_fault:
        return "the device failed";
      case Errc::device_hung:
        return "the device stopped answering";
      case Errc::out_of_memory:
        return "out of memory";
    }
    return "unknown error";
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    return {code, std::generic_category()};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  // Never destroyed: static objects of the program may still hold codes.
  alignas(Category) static std::byte place[sizeof(Category)];
  static const Category* const category = new (place) Category;
  return *category;
}

std::error_code make_error_code(Errc code) noexcept { return {static_cast<int>(code), error_category()}; }

}  // namespace ec
