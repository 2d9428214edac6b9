// stats_child: codes by isal what it is told, for a test that reads what was counted. Each line of its input
// is "encode TIMES BYTES", or decode or update (chunks of BYTES bytes, 4+2; decode: one lost), and is
// answered with "ok". Or it says of its page what a plugin would: "stock", "isa", "jerasure", "own"; or
// "forge": all that a page has room for.
#include <iostream>
#include <string>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace {

using ec::codec::Event;
using ec::kernels::Status;

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

bool code(const ec::codec::Codec& codec, const std::string& operation, std::size_t bytes) {
  const unsigned k = codec.k(), m = codec.m();
  std::vector<std::uint8_t> memory((k + m) * bytes, 0x5a);
  std::vector<ec::kernels::Source> chunks;
  std::vector<ec::kernels::Target> out;
  for (unsigned c = 0; c < k + m; ++c) {
    chunks.push_back({memory.data() + c * bytes});
    out.push_back({memory.data() + c * bytes});
  }
  const auto data = std::span(chunks).first(k);
  const auto coding = std::span(out).last(m);
  if (operation == "encode") return codec.encode(data, coding, bytes) == Status::ok;
  if (operation == "update") return codec.update(0, data[0], coding, bytes) == Status::ok;
  const auto plan = codec.plan({ec::gf::ChunkSet::first(k + m) - ec::gf::ChunkSet{1}, ec::gf::ChunkSet{1}});
  if (!plan) return false;
  std::vector<ec::kernels::Source> sources;
  for (const auto c : plan->sources) sources.push_back(chunks[c]);
  return codec.decode(*plan, sources, {&out[1], 1}, bytes) == Status::ok;
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
