// Objects that live as long as the process, also where a host forks and where its threads outlive static
// objects.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace ec {

/// A static variable of type T that is never destroyed: threads and static objects of the host may use it
/// while static objects go. Reading and writing it is reading and writing a T.
template <class T>
union NeverDestroyed {
  template <class... Arguments>
  constexpr explicit NeverDestroyed(Arguments&&... arguments)
      : value(std::forward<Arguments>(arguments)...) {}
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;
  constexpr ~NeverDestroyed() {}  // NOLINT: the destructor of T is not run

  T value;
};

/// A static T that the first caller makes and that is never destroyed. Without a lock, which a child of
/// fork() might find taken for ever: callers that come at once each make a T, and one of them is kept.
template <class T>
class MadeOnce {
 public:
  /// make: returns std::unique_ptr<T>. Its exceptions reach the caller, and the next caller tries again.
  template <class Make>
  T& get(const Make& make) {
    T* there = kept_.load(std::memory_order_acquire);
    if (there != nullptr) return *there;
    std::unique_ptr<T> made = make();
    return kept_.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel) ? *made.release()
                                                                                       : *there;
  }

 private:
  std::atomic<T*> kept_{nullptr};
};

}  // namespace ec
