// The chunks of a call as the rooms below know them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <span>

namespace ec::library {

/// Sources or targets of one call (kernels::Source, kernels::Target); on the stack for a stripe of common
/// size.
template <class Region>
class Regions {
 public:
  void reserve(std::size_t count) { all_.reserve(count); }
  void push_back(Region region) { all_.push_back(region); }
  operator std::span<const Region>() const noexcept { return {all_.data(), all_.size()}; }  // NOLINT: a view

 private:
  boost::container::small_vector<Region, 32> all_;
};

}  // namespace ec::library
