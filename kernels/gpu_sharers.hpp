// Who else uses a GPU of this host, as far as the driver lets it be seen.
#pragma once

#include <cstddef>

namespace ec::kernels {

/// Processes of this host (of its network namespace) beside this one that use a GPU while this one takes
/// turns with them: 0 under MPS, and where this process uses none. Reads /proc/net/unix, so it takes some 100
/// us and more; any thread. 0 where there is no memory for that.
std::size_t gpu_sharers() noexcept;

}  // namespace ec::kernels
