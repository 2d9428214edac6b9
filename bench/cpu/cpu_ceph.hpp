// The part of `ec_bench cpu` that goes through Ceph's interface.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ec::bench {

/// Runs the program for `ceph` beside this one with our plugin and Debian's isa plugin (a process of its own:
/// see main.cpp), and returns its rows with the keys of `ec_bench cpu`; ratio_isa_plugin is that of its
/// rounds. pace: further arguments for it. Throws std::runtime_error if it is missing or fails.
nlohmann::json ceph_rows(const std::vector<std::string>& pace);

}  // namespace ec::bench
