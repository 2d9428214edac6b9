// Prints the test vectors: make_vectors > tests/vectors/vectors.json
#include <iostream>

#include "tests/vectors/vectors.hpp"

int main() {
  std::cout << ec::test::make_vectors().dump(1) << '\n';
  return std::cout.flush() ? 0 : 1;
}
