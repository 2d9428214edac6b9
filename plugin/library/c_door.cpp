// The C door: pointers and counts in, 0 or -errno out, the reason kept for the thread.
#include "ec/ec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>

#include "plugin/library/engine.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/regions.hpp"
#include "plugin/library/stripes.hpp"

struct ec_codec {
  std::shared_ptr<const ec::library::Engine> engine;
};

namespace {

using ec::Errc;
using ec::Error;
using ec::library::guarded;
using ec::library::refuse;

/// Fixed, so that saying what went wrong needs no memory.
constinit thread_local std::array<char, 512> last_error{};

int answer(const Error& error) noexcept {
  if (!error) return 0;
  const std::string_view text = error.text().empty() ? "out of memory" : std::string_view(error.text());
  const std::size_t length = std::min(text.size(), last_error.size() - 1);
  std::copy_n(text.begin(), length, last_error.begin());
  last_error[length] = '\0';
  return -error.code().value();
}

void need(const void* pointer, const char* name) {
  if (pointer == nullptr) refuse("{} is null", name);
}

/// What does not fit the rooms' type must not become another residence on the way there.
ec::kernels::Residence residence_of(ec_residence residence, const char* name, std::size_t i) {
  if (residence < EC_PAGEABLE || residence > EC_DEVICE) ec::library::refuse_residence(name, i, residence);
  return static_cast<ec::kernels::Residence>(residence);
}

template <class Region, class Byte, class Chunk>
ec::library::Regions<Region> regions(const char* name, const Chunk* chunks, std::size_t stripes,
                                     std::size_t each) {
  ec::library::Regions<Region> all;
  if (each == 0 || stripes == 0) return all;
  need(chunks, name);
  if (stripes > std::numeric_limits<std::size_t>::max() / sizeof(Chunk) / each)
    refuse("stripes={} are more than memory can hold", stripes);
  all.reserve(stripes * each);
  for (std::size_t i = 0; i < stripes * each; ++i)
    all.push_back({static_cast<Byte*>(chunks[i].data), residence_of(chunks[i].residence, name, i)});
  return all;
}

auto sources_of(const char* name, const ec_source* chunks, std::size_t stripes, std::size_t each) {
  return regions<ec::kernels::Source, const std::uint8_t>(name, chunks, stripes, each);
}
auto targets_of(const char* name, const ec_target* chunks, std::size_t stripes, std::size_t each) {
  return regions<ec::kernels::Target, std::uint8_t>(name, chunks, stripes, each);
}

std::span<const unsigned> numbers(const char* name, const unsigned* chunks, std::size_t count,
                                  std::size_t most) {
  if (count > most) refuse("{}_count={}; there are {} chunks", name, count, most);
  if (count != 0) need(chunks, name);
  return {chunks, count};
}

/// As the caller passed it: the pointer may be null whatever the count.
struct NumberList {
  const unsigned* chunks;
  std::size_t count;
};

int encode(const ec_codec* codec, std::size_t stripes, const ec_source* data, const ec_target* coding,
           std::size_t chunk_bytes, const ec::library::Completion& completion) {
  return answer(guarded([&] {
    need(codec, "codec");
    const auto& engine = *codec->engine;
    return engine.encode(sources_of("data", data, stripes, engine.k()),
                         targets_of("coding", coding, stripes, engine.m()), chunk_bytes, completion);
  }));
}

int decode(const ec_codec* codec, std::size_t stripes, const NumberList& available, const ec_source* sources,
           const NumberList& wanted, const ec_target* targets, std::size_t chunk_bytes,
           const ec::library::Completion& completion) {
  return answer(guarded([&] {
    need(codec, "codec");
    const auto& engine = *codec->engine;
    // The lists first: a wrong count must not decide how many chunks are read below.
    const std::size_t most = engine.k() + engine.m();
    const auto have = numbers("available", available.chunks, available.count, most);
    const auto want = numbers("wanted", wanted.chunks, wanted.count, most);
    return engine.decode(have, sources_of("sources", sources, stripes, have.size()), want,
                         targets_of("targets", targets, stripes, want.size()), chunk_bytes, completion);
  }));
}

}  // namespace

extern "C" {

int ec_codec_create(unsigned k, unsigned m, ec_technique technique, ec_codec** codec) {
  return answer(guarded([&]() -> Error {
    need(codec, "codec");
    *codec = nullptr;
    auto engine = ec::library::Engine::create(k, m, technique);
    if (!engine) return engine.error();
    *codec = new ec_codec{*std::move(engine)};
    return {};
  }));
}

void ec_codec_destroy(ec_codec* codec) { delete codec; }

unsigned ec_codec_k(const ec_codec* codec) { return codec == nullptr ? 0 : codec->engine->k(); }
unsigned ec_codec_m(const ec_codec* codec) { return codec == nullptr ? 0 : codec->engine->m(); }

int ec_encode(const ec_codec* codec, size_t stripes, const ec_source* data, const ec_target* coding,
              size_t chunk_bytes) {
  return encode(codec, stripes, data, coding, chunk_bytes, {});
}

int ec_encode_async(const ec_codec* codec, size_t stripes, const ec_source* data, const ec_target* coding,
                    size_t chunk_bytes, CUstream_st* stream) {
  return encode(codec, stripes, data, coding, chunk_bytes, {.waits = false, .stream = stream});
}

int ec_decode(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
              const ec_source* sources, const unsigned* wanted, size_t wanted_count, const ec_target* targets,
              size_t chunk_bytes) {
  return decode(codec, stripes, {available, available_count}, sources, {wanted, wanted_count}, targets,
                chunk_bytes, {});
}

int ec_decode_async(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
                    const ec_source* sources, const unsigned* wanted, size_t wanted_count,
                    const ec_target* targets, size_t chunk_bytes, CUstream_st* stream) {
  return decode(codec, stripes, {available, available_count}, sources, {wanted, wanted_count}, targets,
                chunk_bytes, {.waits = false, .stream = stream});
}

int ec_update(const ec_codec* codec, size_t stripes, unsigned chunk, const ec_source* delta,
              const ec_target* coding, size_t chunk_bytes) {
  return answer(guarded([&] {
    need(codec, "codec");
    const auto& engine = *codec->engine;
    return engine.update(chunk, sources_of("delta", delta, stripes, 1),
                         targets_of("coding", coding, stripes, engine.m()), chunk_bytes);
  }));
}

const char* ec_error_text(void) { return last_error.data(); }

const char* ec_version(void) { return ec::version(); }

}  // extern "C"
