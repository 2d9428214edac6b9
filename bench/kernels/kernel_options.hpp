// The command line of `ec_bench kernels`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gf/generator.hpp"

namespace ec::bench {

/// One line-up of kernels.
struct KernelCase {
  bool decode = false;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;     ///< lost chunks, which decode makes; 0 for encode
  unsigned lost_coding = 0;  ///< how many of them are coding chunks; always the first of their kind
  std::size_t chunk_bytes = 0;
  std::size_t stripes = 1;  ///< coded by one launch

  unsigned targets() const { return decode ? erasures : m; }
  std::size_t moved_bytes() const { return (k + targets()) * chunk_bytes * stripes; }
};

struct KernelOptions {
  std::string help;
  std::vector<std::string> kernels;  ///< empty: all
  std::vector<KernelCase> cases;
  std::size_t total_bytes = 0;  ///< moved by a run where the chunk is not given
  unsigned runs = 0;
  std::string json_file;
};

/// Throws UsageError. Without --shapes, --ops, --chunk or --stripes: the cases behind the documentation's
/// claims.
KernelOptions parse_kernel_options(const std::vector<std::string>& arguments);

}  // namespace ec::bench
