// How a test steers the fault driver, found with dlsym in the library that the device room has opened.
#pragma once

#include <dlfcn.h>

#include <cstddef>

namespace ec::test::faults {

/// Exported as `fault_driver_control` by the libcuda.so.1 of this folder. All functions are thread safe.
struct Control {
  /// Back to a healthy device; counts are cleared, memory stays. Work that hangs is dropped, not finished.
  void (*reset)();
  /// Takes a plan (plan.hpp) in the place of what was set before. Null, or a sentence about what is wrong
  /// with it, which lives until the next call in this thread.
  const char* (*plan)(const char* text);
  /// What hangs finishes now, late: its writes land wherever they were to land. The plan is forgotten.
  void (*finish_hung)();
  /// Calls of `symbol` since reset().
  unsigned (*calls)(const char* symbol);
  /// Calls of any function since reset().
  unsigned (*all_calls)();
  /// Bytes of pinned and of device memory allocated through this library and not freed, by themselves or with
  /// their context; and the streams, events and modules made and not destroyed.
  std::size_t (*pinned_bytes)();
  std::size_t (*device_bytes)();
  std::size_t (*objects)();
  /// Told from now on when a thread enters a function of the driver, and when it leaves. Null: nobody.
  void (*watch)(void (*watcher)(bool enters));
};

/// Of the driver of that name, which stays open; null if it is another driver, or none.
inline const Control* control_of(const char* library = "libcuda.so.1") {
  void* driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* find = driver == nullptr ? nullptr : dlsym(driver, "fault_driver_control");
  return find == nullptr ? nullptr : reinterpret_cast<const Control* (*)()>(find)();
}

}  // namespace ec::test::faults
