// What `ec_bench ceph` runs.
#include "bench/ceph/ceph_road.hpp"
#include "bench/common/run.hpp"

int main(int argc, char** argv) {
  return ec::bench::run_subcommand({ec::bench::ceph_subcommand, ec::bench::make_ceph_road,
                                    [] { return "Ceph " + ec::bench::ceph_version(); }},
                                   {argv + 1, argv + argc});
}
