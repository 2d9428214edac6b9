// A fixture whose device is the emulated driver behind the fault driver, healthy at the start of each test.
// The variable EC_FAULTS_NEXT_DRIVER puts another in the emulated one's place: a real one, on a machine with
// a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "tests/drivers/fault/control.hpp"

namespace ec::test {

class EmulatedDevice : public testing::Test {
 protected:
  void SetUp() override {
    setenv("EC_FAULTS_NEXT_DRIVER", EC_EMULATED_DRIVER, 0);
    driver_ = faults::control_of(EC_FAULT_DRIVER);
    ASSERT_NE(driver_, nullptr) << dlerror();
    driver_->reset();
    log_.clear();
    use(options());
  }
  void TearDown() override {
    kernels::cuda::Devices::instance().reset();
    driver_->reset();
  }

  static kernels::cuda::Options options() {
    kernels::cuda::Options o;
    o.driver_library = EC_FAULT_DRIVER;
    o.deadline = std::chrono::milliseconds(50);
    o.retry_after = std::chrono::seconds(0);
    o.staging_bytes = std::size_t{1} << 20;
    o.alone_in_process = true;
    o.log = [](const char* line) { log_ += std::string(line) + "\n"; };
    return o;
  }

  /// Forgets the device and takes these options for the next one.
  static void use(const kernels::cuda::Options& o) {
    kernels::cuda::Devices::instance().reset();
    kernels::cuda::configure(o);
  }

  static bool bring_up() {
    kernels::cuda::Reason why;
    const bool up = kernels::cuda::bring_up(&why);
    if (!up) log_ += std::string(why.view()) + "\n";
    return up;
  }

  /// What goes wrong from now on (tests/drivers/fault/plan.hpp).
  void plan(const std::string& rules) const { ASSERT_EQ(driver_->plan(rules.c_str()), nullptr) << rules; }

  const faults::Control* driver_ = nullptr;
  static inline std::string log_;
};

}  // namespace ec::test
