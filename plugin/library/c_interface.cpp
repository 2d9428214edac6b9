// The C interface over the C++ one: pointers and counts in, 0 or -errno out, the reason kept for the thread.
#include "ec/ec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "plugin/library/refusal.hpp"
#include "plugin/library/stripes.hpp"

struct ec_codec {
  ec::Codec codec;
};

namespace {

using ec::Error;
using ec::library::Chunks;
using ec::library::guarded;
using ec::library::refuse;
using ec::library::view;

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

const ec::Codec& codec_of(const ec_codec* codec) {
  need(codec, "codec");
  return codec->codec;
}

/// The array as the C++ interface takes it. To: ec::Source or ec::Target.
template <class To, class Chunk>
Chunks<To> chunks_of(const char* name, const Chunk* chunks, std::size_t stripes, std::size_t each,
                     std::size_t bytes) {
  Chunks<To> all;
  if (each == 0 || stripes == 0) return all;
  need(chunks, name);
  if (stripes > std::numeric_limits<std::size_t>::max() / sizeof(To) / each)
    refuse("stripes={} are more than memory can hold", stripes);
  all.reserve(stripes * each);
  for (std::size_t i = 0; i < stripes * each; ++i) {
    // What does not fit the other type must not become another residence on the way there.
    const ec_residence residence = chunks[i].residence;
    if (residence < EC_PAGEABLE || residence > EC_DEVICE) ec::library::refuse_residence(name, i, residence);
    all.emplace_back(chunks[i].data, bytes, static_cast<ec::Residence>(residence));
  }
  return all;
}

std::span<const unsigned> numbers(const char* name, const unsigned* chunks, std::size_t count,
                                  std::size_t most) {
  if (count > most) refuse("{}_count={}; there are {} chunks", name, count, most);
  if (count != 0) need(chunks, name);
  return {chunks, count};
}

/// The stream of the async calls.
using Stream = std::optional<CUstream_st*>;

int encode(const ec_codec* handle, std::size_t stripes, const ec_source* data, const ec_target* coding,
           std::size_t bytes, const Stream& stream) {
  return answer(guarded([&] {
    const ec::Codec& codec = codec_of(handle);
    const auto from = chunks_of<ec::Source>("data", data, stripes, codec.k(), bytes);
    const auto to = chunks_of<ec::Target>("coding", coding, stripes, codec.m(), bytes);
    return stream ? codec.encode_async(view(from), view(to), *stream) : codec.encode(view(from), view(to));
  }));
}

int decode(const ec_codec* handle, std::size_t stripes, const unsigned* available,
           std::size_t available_count, const ec_source* sources, const unsigned* wanted,
           std::size_t wanted_count, const ec_target* targets, std::size_t bytes, const Stream& stream) {
  return answer(guarded([&] {
    const ec::Codec& codec = codec_of(handle);
    // The lists first: a wrong count must not decide how many chunks are read below.
    const auto have = numbers("available", available, available_count, codec.k() + codec.m());
    const auto want = numbers("wanted", wanted, wanted_count, codec.k() + codec.m());
    const auto from = chunks_of<ec::Source>("sources", sources, stripes, have.size(), bytes);
    const auto to = chunks_of<ec::Target>("targets", targets, stripes, want.size(), bytes);
    return stream ? codec.decode_async(have, view(from), want, view(to), *stream)
                  : codec.decode(have, view(from), want, view(to));
  }));
}

}  // namespace

extern "C" {

int ec_codec_create(unsigned k, unsigned m, ec_technique technique, ec_codec** codec) {
  return answer(guarded([&]() -> Error {
    need(codec, "codec");
    *codec = nullptr;
    if (technique < EC_REED_SOL_VAN || technique > EC_CAUCHY) ec::library::refuse_technique(technique);
    auto made = ec::Codec::create(k, m, static_cast<ec::Technique>(technique));
    if (!made) return made.error();
    *codec = new ec_codec{*std::move(made)};
    return {};
  }));
}

void ec_codec_destroy(ec_codec* codec) { delete codec; }

unsigned ec_codec_k(const ec_codec* codec) { return codec == nullptr ? 0 : codec->codec.k(); }
unsigned ec_codec_m(const ec_codec* codec) { return codec == nullptr ? 0 : codec->codec.m(); }

int ec_encode(const ec_codec* codec, size_t stripes, const ec_source* data, const ec_target* coding,
              size_t chunk_bytes) {
  return encode(codec, stripes, data, coding, chunk_bytes, {});
}

int ec_encode_async(const ec_codec* codec, size_t stripes, const ec_source* data, const ec_target* coding,
                    size_t chunk_bytes, CUstream_st* stream) {
  return encode(codec, stripes, data, coding, chunk_bytes, stream);
}

int ec_decode(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
              const ec_source* sources, const unsigned* wanted, size_t wanted_count, const ec_target* targets,
              size_t chunk_bytes) {
  return decode(codec, stripes, available, available_count, sources, wanted, wanted_count, targets,
                chunk_bytes, {});
}

int ec_decode_async(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
                    const ec_source* sources, const unsigned* wanted, size_t wanted_count,
                    const ec_target* targets, size_t chunk_bytes, CUstream_st* stream) {
  return decode(codec, stripes, available, available_count, sources, wanted, wanted_count, targets,
                chunk_bytes, stream);
}

int ec_update(const ec_codec* handle, size_t stripes, unsigned chunk, const ec_source* delta,
              const ec_target* coding, size_t chunk_bytes) {
  return answer(guarded([&] {
    const ec::Codec& codec = codec_of(handle);
    const auto from = chunks_of<ec::Source>("delta", delta, stripes, 1, chunk_bytes);
    const auto to = chunks_of<ec::Target>("coding", coding, stripes, codec.m(), chunk_bytes);
    return codec.update(chunk, view(from), view(to));
  }));
}

const char* ec_error_text(void) { return last_error.data(); }

const char* ec_version(void) { return ec::version(); }

}  // extern "C"
