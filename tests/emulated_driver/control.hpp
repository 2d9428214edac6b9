// How a test steers the emulated driver. Found with dlsym in the library that the device room has opened.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace ec::test::emulated {

/// Exported as `emulated_driver_control`. All functions are thread safe.
struct Control {
  /// Back to a healthy device; counts are cleared, memory stays. Work that hangs is dropped, not finished.
  void (*reset)();
  /// The nth call (1: the next) of the driver function `symbol` answers `result` and does nothing. If
  /// `sticky`, every later call that needs the context answers it too, until the context is made anew.
  void (*fail)(const char* symbol, unsigned nth, CUresult result, bool sticky);
  /// From now on launches are accepted and do not finish.
  void (*hang)();
  /// What hangs finishes now, late: its writes land wherever they were to land.
  void (*finish_hung)();
  /// From now on the first byte of the first target of each launch comes out wrong.
  void (*corrupt)();
  /// Calls of `symbol` since reset().
  unsigned (*calls)(const char* symbol);
  /// Calls of any function since reset().
  unsigned (*all_calls)();
  /// Bytes of pinned and of device memory allocated now.
  std::size_t (*pinned_bytes)();
  std::size_t (*device_bytes)();
};

}  // namespace ec::test::emulated
