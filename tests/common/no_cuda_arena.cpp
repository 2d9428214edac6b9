// What arena.hpp promises of pinned and device memory, in a build without the GPU back end.
#include "tests/common/arena.hpp"

namespace ec::test {

std::unique_ptr<Arena> cuda_arena(kernels::Residence) { return nullptr; }

std::vector<kernels::Residence> residences() { return {kernels::Residence::pageable}; }

}  // namespace ec::test
