// Texts of calibration files: refused with a reason, or costs that every prediction can be made of.
#include "plugin/codec/routing/calibration.hpp"

#include <string>

#include "plugin/codec/routing/cost_model.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

const codec::Machine machine{"c", {"g"}};

bool sane(double value, double lowest, double highest) { return value >= lowest && value <= highest; }

void check_rates(const codec::Rates& r) {
  for (const double cost :
       {r.call_us, r.stripe_us, r.read_us_per_mb, r.written_us_per_mb, r.product_us_per_mb})
    expect(sane(cost, 0, 1e9), "a cost of {} is refused", cost);
}

void check_taken(const codec::Calibration& c) {
  expect(c.cpu == machine.cpu, "the CPU {} is another", c.cpu);
  expect(c.gpu.empty() || c.gpu == machine.gpus[0], "the GPU {} is another", c.gpu);
  for (const codec::Rates& each : c.costs.cpu) check_rates(each);
  if (c.costs.pageable) check_rates(*c.costs.pageable);
  check_rates(c.costs.pinned);

  const codec::Work work{255, 254, std::uint64_t{1} << 31, 1024, true};
  expect(sane(codec::cpu_us(c.costs, work), 0, 1e30), "a prediction");
  for (const auto residence : {kernels::Residence::pageable, kernels::Residence::pinned})
    expect(sane(codec::device_us(c.costs, work, residence, 1000).value_or(0), 0, 1e30), "a prediction");

  const auto again = codec::parse_calibration(codec::to_json(c), machine);
  expect(again.costs == c.costs && again.gpu == c.gpu, "what is written is read");
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  try {
    check_taken(ec::codec::parse_calibration({reinterpret_cast<const char*>(data), size}, machine));
  } catch (const ec::codec::SetupError& refused) {
    const std::string why = refused.what();
    expect(!why.empty() && why.find('\n') == std::string::npos, "a reason of one line");
  }
  return 0;
}
