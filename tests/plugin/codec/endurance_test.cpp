// A daemon's life in short: codecs come and go, calls of every residence and operation follow each other, and
// memory stays flat. EC_TEST_ENDURANCE=1 makes it 10^5 codecs and 10^6 calls; on a machine with a GPU those
// of pinned and device memory run there, and its memory is looked at too.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"
#include "tests/common/arena.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/device/devices.hpp"
#endif

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;

struct Held {
  std::size_t resident = 0;  ///< bytes of this process
  std::size_t device = 0;    ///< bytes in use on the GPU, by anybody; 0 without one
};

std::size_t device_bytes_in_use() {
#ifdef EC_WITH_CUDA
  using Info = CUresult (*)(std::size_t*, std::size_t*);
  const auto device = kernels::cuda::Devices::instance().current();
  const auto info = reinterpret_cast<Info>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetInfo_v2"));
  if (!device || info == nullptr) return 0;
  const kernels::cuda::Device::Scope scope(*device);
  std::size_t free = 0, all = 0;
  return info(&free, &all) == CUDA_SUCCESS ? all - free : 0;
#else
  return 0;
#endif
}

Held held_now() {
  malloc_trim(0);
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return {resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), device_bytes_in_use()};
}

struct Shape {
  gf::Technique technique;
  unsigned k, m;
};
constexpr Shape shapes[] = {{gf::Technique::reed_sol_van, 2, 1},
                            {gf::Technique::reed_sol_van, 4, 2},
                            {gf::Technique::cauchy, 8, 3},
                            {gf::Technique::reed_sol_van, 10, 4},
                            {gf::Technique::cauchy, 20, 4}};

/// Chunks of one residence, enough for the widest shape.
class Chunks {
 public:
  static constexpr std::size_t bytes = 4096;

  explicit Chunks(Arena& arena) : arena_(arena) {
    const std::vector<std::uint8_t> content(bytes, 0x5a);
    for (unsigned i = 0; i < 24; ++i) {
      std::uint8_t* chunk = arena.allocate(bytes, 0);
      arena.upload(chunk, content.data(), bytes);
      sources.push_back({chunk, arena.residence()});
      targets.push_back({chunk, arena.residence()});
    }
  }
  ~Chunks() {
    for (const auto& t : targets) arena_.release(t.data);
  }
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;

 private:
  Arena& arena_;
};

Status call(const codec::Codec& codec, const Chunks& chunks, std::size_t i) {
  const std::span sources(chunks.sources);
  const std::span targets(chunks.targets);
  const unsigned k = codec.k(), m = codec.m();
  if (i % 3 == 0) return codec.encode(sources.first(k), targets.subspan(k, m), Chunks::bytes);
  if (i % 3 == 1)
    return codec.update(static_cast<unsigned>(i) % k, sources[0], targets.subspan(k, m), Chunks::bytes);
  gf::ErasureSignature signature{gf::ChunkSet::first(k + m), {}};
  signature.wanted.insert(static_cast<unsigned>(i / 3) % (k + m));
  signature.available = signature.available - signature.wanted;
  const auto plan = codec.plan(signature);
  return plan ? codec.decode(*plan, sources, targets, Chunks::bytes) : Status::fault;
}

TEST(Endurance, CodecsAndCallsLeaveMemoryFlat) {
  const bool whole = std::getenv("EC_TEST_ENDURANCE") != nullptr;
  const std::size_t codecs = whole ? 100'000 : 2'000;
  const std::size_t calls_each = 10;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Chunks>> places;
  arenas.push_back(pageable_arena());
  for (const auto residence : {Residence::pinned, Residence::device})
    if (auto arena = cuda_arena(residence)) arenas.push_back(std::move(arena));
  for (const auto& arena : arenas) places.push_back(std::make_unique<Chunks>(*arena));

  std::size_t calls = 0;
  const auto live = [&](std::size_t from, std::size_t to) {
    for (std::size_t c = from; c < to; ++c) {
      const Shape& shape = shapes[c % std::size(shapes)];
      // Pinned chunks are for the GPU whatever their length.
      const codec::Codec codec(shape.technique, shape.k, shape.m,
                               codec::Router(codec::BackendChoice::automatic, 0));
      for (std::size_t i = 0; i < calls_each; ++i, ++calls)
        ASSERT_EQ(call(codec, *places[calls % places.size()], c + i), Status::ok) << "call " << calls;
    }
  };
  live(0, codecs / 5);  // caches fill, programs compile
  const Held before = held_now();
  live(codecs / 5, codecs);
  const Held after = held_now();
  std::printf("%zu codecs, %zu calls, %zu residences: %.1f MiB, then %.1f MiB; on the GPU %.1f, then %.1f\n",
              codecs, calls, places.size(), static_cast<double>(before.resident) / 1048576,
              static_cast<double>(after.resident) / 1048576, static_cast<double>(before.device) / 1048576,
              static_cast<double>(after.device) / 1048576);
  constexpr std::size_t noise = std::size_t{4} << 20;
  EXPECT_LE(after.resident, before.resident + noise);
  EXPECT_LE(after.device, before.device + noise);
}

}  // namespace
}  // namespace ec::test
