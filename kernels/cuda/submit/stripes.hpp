// Many stripes of one program and one length, as one launch takes them.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/stripe_launch.hpp"

namespace ec::kernels::cuda {

/// Whether the jobs can be one: more than one, of one program and one length, and none with a pageable chunk.
bool are_stripes(std::span<const Job> jobs);

/// Whether no chunk of the job is pageable; whether all are in device memory.
bool in_place(const Job& job);
bool on_device(const Job& job);

/// Chunks that go over the link to the host, in the direction that has more.
std::size_t busier_direction(const Job& job);

/// A view of jobs for which are_stripes() holds, or of one job, with the addresses that kernels want.
/// Launches need the device's context current.
class Stripes {
 public:
  explicit Stripes(std::span<const Job> jobs);

  std::size_t count() const { return jobs_.size(); }
  /// Chunks of a stripe.
  std::size_t width() const { return jobs_.front().sources.size() + jobs_.front().targets.size(); }
  std::size_t bytes_moved() const { return count() * width() * jobs_.front().bytes; }
  std::size_t link_bytes() const { return count() * busier_direction(jobs_.front()) * jobs_.front().bytes; }
  /// The addresses of stripes first .. first + count - 1: of each the sources, then the targets.
  std::span<std::uint8_t* const> table(std::size_t first, std::size_t count) const {
    return std::span(addresses_).subspan(first * width(), count * width());
  }

  /// The kernel generated for many stripes, if it is there and takes these.
  CUfunction generated(const std::shared_ptr<Device>& device, const KernelChoice& choice) const;
  /// As many of table() as lie at `table` in device memory, in one launch.
  CUresult launch(const Device& device, CUfunction generated, CUdeviceptr table, std::size_t count,
                  CUstream stream) const;
  /// A launch for each stripe.
  CUresult launch_each(const std::shared_ptr<Device>& device, std::size_t first, std::size_t count,
                       const KernelChoice& choice, CUstream stream) const;

 private:
  std::size_t link_jobs(const Device& device) const;
  std::size_t sources() const { return jobs_.front().sources.size(); }

  std::span<const Job> jobs_;
  std::vector<std::uint8_t*> addresses_;
  bool over_link_;
};

}  // namespace ec::kernels::cuda
