// Pinned and device memory for the tests, when this build has the GPU back end.
#pragma once

#include "tests/support/arena.hpp"

namespace ec::test {

/// Brings the device up on its first allocation and takes one large block from it; null from allocate() when
/// there is no device. residence: pinned or device.
std::unique_ptr<Arena> cuda_arena(kernels::Residence residence);

}  // namespace ec::test
