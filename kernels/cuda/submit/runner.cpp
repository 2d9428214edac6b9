// The parts of the runner that are the same for every submission.
#include "kernels/cuda/submit/runner.hpp"

namespace ec::kernels::cuda {

Runner::Runner(Device& device) : device_(device), scope_(device) {
  outcome_ = outcome_of(device.driver(), "cuCtxPushCurrent", scope_.result());
  if (!ok()) return;
  lane_ = device.borrow_lane();
  if (!lane_) outcome_ = {Status::busy, {}};
}

Runner::~Runner() {
  if (in_flight_) wait();
}

bool Runner::wait(Clock::duration under_way) {
  Outcome waited = wait_for(device_, *lane_, *in_flight_, submission_, under_way);
  in_flight_.reset();
  // A submission may be several launches: when a later one fails, the earlier ones are still waited for.
  outcome_ = std::move(waited.status != Status::ok ? waited : launched_);
  return ok();
}

}  // namespace ec::kernels::cuda
