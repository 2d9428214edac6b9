// The road of a storage daemon: plugins behind Ceph's classic interface, several in this process.
#pragma once

#include "bench/common/contestant.hpp"
#include "bench/common/options.hpp"

namespace ec::bench {

Subcommand ceph_subcommand();

/// plugins: NAME, or NAME=DIRECTORY where libec_NAME.so is not in its usual place.
std::unique_ptr<Road> make_ceph_road(const std::vector<std::string>& plugins);

/// The version of Ceph that this program hosts plugins as.
std::string ceph_version();

}  // namespace ec::bench
