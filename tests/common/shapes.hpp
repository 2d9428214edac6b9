// Which small codes the exhaustive tests walk.
#pragma once

#include <string_view>
#include <vector>

namespace ec::test {

struct CodeShape {
  unsigned k;
  unsigned m;
};

/// Every shape with 2 <= k and k + m <= most that the technique allows; the Vandermonde limits are ISA-L's,
/// stated here once more so that the code under test cannot widen them unseen.
inline std::vector<CodeShape> small_shapes(std::string_view technique, unsigned most) {
  std::vector<CodeShape> shapes;
  for (unsigned k = 2; k < most; ++k)
    for (unsigned m = 1; k + m <= most; ++m)
      if (technique == "cauchy" || m <= 3 || k <= 3 || (k == 4 && m <= 21) || (k == 5 && m <= 5) ||
          (m == 4 && k <= 21))
        shapes.push_back({k, m});
  return shapes;
}

}  // namespace ec::test
