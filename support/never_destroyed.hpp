// An object that lives as long as the process: no destructor takes it away while threads or static objects of
// the host still use it.
#pragma once

#include <utility>

namespace ec {

/// For static variables. Reading and writing it is reading and writing a T.
template <class T>
union NeverDestroyed {
  template <class... Arguments>
  constexpr explicit NeverDestroyed(Arguments&&... arguments)
      : value(std::forward<Arguments>(arguments)...) {}
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;
  constexpr ~NeverDestroyed() {}  // NOLINT: that of T is not run

  T value;
};

}  // namespace ec
