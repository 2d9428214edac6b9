// Files of the cache of compiled programs: taken only as they were written, for the key they were written
// for.
#include <string>

#include "kernels/cuda/generate/program_files.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

using kernels::cuda::program_body;

/// What a writer leaves, changed in places, cut or grown, is refused unless all changes together changed
/// nothing.
void check_damage(Input& input) {
  const std::string key = input.ConsumeRandomLengthString(40);
  const std::string body = input.ConsumeRandomLengthString(60);
  const std::string file = kernels::cuda::program_header(key, body) + body;
  expect(program_body(file, key) == body, "what is written is read");
  std::string damaged = file;
  for (int i = input.ConsumeIntegralInRange(0, 4); i > 0; --i) {
    const auto at = input.ConsumeIntegralInRange<std::size_t>(0, damaged.size());
    if (input.ConsumeBool())
      damaged.insert(at, input.ConsumeRandomLengthString(8));
    else if (input.ConsumeBool())
      damaged.erase(at, input.ConsumeIntegralInRange(0, 20));
    else if (at < damaged.size())
      damaged[at] = static_cast<char>(input.ConsumeIntegral<std::uint8_t>());
  }
  const auto read = program_body(damaged, key);
  expect(read == (damaged == file ? body : ""), "a damaged file is refused");
  const std::string other = input.ConsumeRandomLengthString(40);
  expect(program_body(file, other) == (other == key ? body : ""), "a file of another key is refused");
}

/// Bytes of anybody's, for a key with line ends and digits in it.
void check_any(const std::string& file) {
  for (const std::string& key : {std::string("v1 sm_90\n0001"), std::string()}) {
    const auto body = program_body(file, key);
    if (!body.empty())
      expect(file == kernels::cuda::program_header(key, body) + body, "a file as we write them");
  }
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ec::fuzz::Input input(data, size);
  if (input.ConsumeBool())
    ec::fuzz::check_damage(input);
  else
    ec::fuzz::check_any(input.ConsumeRemainingBytesAsString());
  return 0;
}
