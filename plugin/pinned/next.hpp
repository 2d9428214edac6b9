// The allocator that is there without the preload: tcmalloc, jemalloc or the C library.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace ec::pinned {

/// A function of the same name in the libraries behind this one, looked up when it is first called. Usable
/// before any constructor has run.
template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  /// Null if there is none, and for a call that comes from within the look-up itself: dlsym frees the text of
  /// an earlier error.
  Function* get() {
    Function* function = function_.load(std::memory_order_relaxed);
    return function != nullptr ? function : look_up();
  }

 private:
  Function* look_up() {
    static thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;
    if (looking) return nullptr;
    looking = true;
    auto* function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    looking = false;
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace ec::pinned
