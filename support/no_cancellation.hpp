// Calls that a thread's pthread_cancel() must not end half-way.
#pragma once

#include <pthread.h>

namespace ec::support {

/// While one lives, its thread is not cancelled: unwinding would end the process where it meets noexcept, and
/// leave work of a device behind elsewhere. A request stays pending. For every call that may sleep, wait or
/// touch files; other calls have no cancellation points.
class NoCancellation {
 public:
  NoCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ec::support
