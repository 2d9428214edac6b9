// What a caller can get wrong at the C++ interface: the code, the exact text, and that no byte was written.
#include <gtest/gtest.h>

#include <functional>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

using Call = CallChunks<Source, Target>;
enum class Verb { encode, decode, update };

Error run(Verb verb, const Call& call) {
  const auto codec = made(4, 2, Technique::cauchy);
  if (verb == Verb::encode) return codec.encode(call.data, call.coding);
  if (verb == Verb::update) return codec.update(call.chunk, call.delta, call.coding);
  return codec.decode(call.available, call.sources, call.wanted, call.targets);
}

struct BadCall {
  const char* text;
  Verb verb;
  std::function<void(Call&)> spoil;
  Errc code = Errc::invalid_argument;
};

const BadCall bad_calls[] = {
    {"data has 7 chunks; whole stripes have 4 each", Verb::encode, [](Call& c) { c.data.pop_back(); }},
    {"coding has 3 chunks; 2 stripes with 2 each need 4", Verb::encode, [](Call& c) { c.coding.pop_back(); }},
    {"coding has 4 chunks; 1 stripe with 2 each need 2", Verb::encode, [](Call& c) { c.data.resize(4); }},
    {"coding has 4 chunks; 0 stripes with 2 each need 0", Verb::encode, [](Call& c) { c.data.clear(); }},
    {"data[7] has 63 bytes and data[0] has 64; all chunks of a call must be equally long", Verb::encode,
     [](Call& c) { c.data[7].bytes = c.data[7].bytes.first(63); }},
    {"coding[0] has 65 bytes and data[0] has 64; all chunks of a call must be equally long", Verb::encode,
     [](Call& c) { c.coding[0] = Target(c.coding[0].bytes.data(), 65); }},
    {"data[5] is null and should hold a chunk of 64 bytes", Verb::encode,
     [](Call& c) { c.data[5] = Source(nullptr, 64); }},
    {"coding[3] is null and should hold a chunk of 64 bytes", Verb::encode,
     [](Call& c) { c.coding[3] = Target(nullptr, 64); }},
    {"data[6] has residence 3; allowed are 0 (pageable), 1 (pinned), 2 (device)", Verb::encode,
     [](Call& c) { c.data[6].residence = static_cast<Residence>(3); }},
    {"coding[1] has residence 255; allowed are 0 (pageable), 1 (pinned), 2 (device)", Verb::encode,
     [](Call& c) { c.coding[1].residence = static_cast<Residence>(255); }},
    {"coding[2] overlaps data[6]; a target must overlap no other chunk of its stripe", Verb::encode,
     [](Call& c) { c.coding[2] = c.stripes.views<Target>({2})[1]; }},
    {"coding[2] overlaps coding[3]; a target must overlap no other chunk of its stripe", Verb::encode,
     [](Call& c) { c.coding[3] = c.coding[2]; }},
    {"available[1]=6; chunks are numbered 0 to 5", Verb::decode, [](Call& c) { c.available[1] = 6; }},
    {"wanted[0]=4294967295; chunks are numbered 0 to 5", Verb::decode, [](Call& c) { c.wanted[0] = ~0u; }},
    {"available[3]=0 repeats available[0]", Verb::decode, [](Call& c) { c.available[3] = 0; }},
    {"wanted[1]=1 repeats wanted[0]", Verb::decode, [](Call& c) { c.wanted[1] = 1; }},
    {"wanted[1]=3 is available[2]; only chunks that are not can be wanted", Verb::decode,
     [](Call& c) { c.wanted[1] = 3; }},
    {"available has 3 chunks; k=4 are needed", Verb::decode,
     [](Call& c) {
       c.available.pop_back();
       c.sources.resize(6);
     },
     Errc::too_few_chunks},
    {"sources has 7 chunks; whole stripes have 4 each", Verb::decode, [](Call& c) { c.sources.pop_back(); }},
    {"targets has 2 chunks; 2 stripes with 2 each need 4", Verb::decode,
     [](Call& c) { c.targets.resize(2); }},
    {"targets[2] overlaps sources[5]; a target must overlap no other chunk of its stripe", Verb::decode,
     [](Call& c) { c.targets[2] = c.stripes.views<Target>({2})[1]; }},
    {"chunk=4 must be a data chunk, 0 to 3", Verb::update, [](Call& c) { c.chunk = 4; }},
    {"coding has 4 chunks; 1 stripe with 2 each need 2", Verb::update, [](Call& c) { c.delta.pop_back(); }},
    {"delta[1] is null and should hold a chunk of 64 bytes", Verb::update,
     [](Call& c) { c.delta[1] = Source(nullptr, 64); }},
};

TEST(BadCall, IsRefusedByNameBeforeAByteIsWritten) {
  for (const auto& bad : bad_calls) {
    Call call;
    call.stripes.scramble({1, 4, 5});
    const auto before = call.stripes.chunks;
    bad.spoil(call);
    const Error error = run(bad.verb, call);
    EXPECT_TRUE(error) << bad.text;
    EXPECT_EQ(error.code(), bad.code) << bad.text;
    EXPECT_EQ(error.text(), bad.text);
    EXPECT_EQ(call.stripes.chunks, before) << bad.text;
  }
}

TEST(BadCall, ATargetMayTouchSourcesOnEitherSideAndNoMore) {
  const auto codec = made(2, 1, Technique::cauchy);
  std::vector<std::byte> memory(256);
  const Source data[] = {{memory.data() + 64, 64}, {memory.data() + 128, 64}};
  for (const std::size_t place : {0u, 1u, 100u, 191u, 192u}) {
    const Target coding[] = {{memory.data() + place, 64}};
    const bool touches = place == 0 || place == 192;
    EXPECT_EQ(codec.encode(data, coding).code(), touches ? std::error_code() : Errc::invalid_argument)
        << place;
  }
}

}  // namespace
}  // namespace ec::test
