// stats_child: codes by isal what it is told, for a test that reads what was counted. Each line of its input
// is "encode TIMES BYTES", or decode or update (chunks of BYTES bytes, 4+2; decode: one lost), and is
// answered with "ok". Or it says of its page what a plugin would: "stock", "isa", "jerasure", "own"; or
// "forge": all that a page has room for.
#include <iostream>
#include <string>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/plugin/codec/routing/round.hpp"

namespace {

using ec::codec::Event;

/// Names for all back ends, and each number 7.
void forge(ec::codec::StatsPage& page) {
  for (std::size_t b = 0; b < ec::codec::max_backends; ++b)
    page.backends[b] = {'b', static_cast<char>('0' + b)};
  for (auto& row : page.shards[0].rows)
    for (ec::codec::Row& of_operation : row) {
      of_operation.calls = of_operation.source_bytes = 7;
      of_operation.fallbacks.fill(7);
      of_operation.small.jobs.fill(7);
      of_operation.large.jobs.fill(7);
    }
  page.checks.fill({7, 7, 7});
}

/// Whether the bytes are right, too.
bool code(const ec::codec::Codec& codec, const std::string& operation, std::size_t bytes) {
  ec::test::StripeSet stripes("reed_sol_van", codec.k(), codec.m(), 1, bytes, 1);
  if (operation == "encode") return encode_is_right(codec, stripes);
  if (operation == "update") return update_is_right(codec, stripes, 0);
  return decode_is_right(codec, stripes, {1});
}

}  // namespace

int main() {
  const ec::codec::Codec codec(ec::gf::Technique::reed_sol_van, 4, 2,
                               ec::codec::Router(ec::codec::BackendChoice::isal, 0));
  std::string operation;
  unsigned times = 0;
  std::size_t bytes = 0;
  while (std::cin >> operation >> times >> bytes) {
    ec::codec::Stats& stats = ec::codec::stats();
    if (operation == "forge")
      forge(stats.page());
    else if (operation == "stock")
      stats.speaks(operation);
    else if (operation == "isa")
      stats.happened(Event::isa_code, times);
    else if (operation == "jerasure")
      stats.happened(Event::jerasure_code, times);
    else if (operation == "own")
      stats.happened(Event::own_code, times);
    else
      for (unsigned i = 0; i < times; ++i)
        if (!code(codec, operation, bytes)) return 1;
    std::cout << "ok" << std::endl;
  }
}
