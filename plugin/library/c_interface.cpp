// The C interface over Engine: pointers and counts in, 0 or -errno out, the reason kept for the thread.
#include "ec/ec.h"

#include <pthread.h>
#include <string.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#include "gf/identify.hpp"
#include "plugin/library/engine.hpp"
#include "plugin/library/refusal.hpp"

struct ec_codec {
  ec::library::Engine engine;
};
struct ec_accumulator {
  ec::library::Accumulator state;
};

namespace ec::library {
namespace {

using codec::Operation;

using ErrorText = decltype(Failure::text);

[[gnu::tls_model("initial-exec")]] constinit thread_local const char* last_error = "";

/// Has the text of a thread's last error freed with the thread. The text itself is too long for thread-local
/// data that exist from the start: there is little room for all libraries that a program opens.
constinit pthread_key_t text_key = PTHREAD_KEYS_MAX;
[[maybe_unused]] const int text_key_made = pthread_key_create(&text_key, [](void* text) {
  last_error = "";
  delete static_cast<ErrorText*>(text);
});

void keep_text(const Failure& failure) noexcept {
  auto* text = static_cast<ErrorText*>(pthread_getspecific(text_key));
  if (text == nullptr) {
    std::unique_ptr<ErrorText> made(new (std::nothrow) ErrorText);
    if (made && pthread_setspecific(text_key, made.get()) == 0) text = made.release();
  }
  if (text != nullptr) *text = failure.text;
  last_error = text != nullptr ? text->c_str() : "out of memory for the text of this error";
}

/// The return value of a call. An error leaves its sentence for the thread.
struct Answer {
  Answer() = default;
  explicit Answer(const Failure& failure) noexcept : code(-static_cast<int>(failure.code)) {
    keep_text(failure);
  }
  int code = 0;
};

/// Does the work, which returns a status, or throws an exception that guarded() takes.
template <class Work>
[[gnu::always_inline]] inline int answer(Work&& work) noexcept {
  return guarded([&]() -> Answer {
           const kernels::Status status = work();
           return status == kernels::Status::ok ? Answer() : Answer(failure_of(status));
         })
      .code;
}

[[gnu::always_inline]] inline void need(const void* pointer, std::string_view name) {
  if (pointer == nullptr) refuse("{} is null", name);
}

const Engine& engine_of(const ec_codec* codec) {
  need(codec, "codec");
  return codec->engine;
}

/// The chunks as the rooms below have them, which are laid out alike.
template <class From>
auto chunks_of(const From* chunks) {
  using To = std::conditional_t<std::is_same_v<From, ec_source>, kernels::Source, kernels::Target>;
  static_assert(sizeof(From) == sizeof(To) && offsetof(From, residence) == offsetof(To, residence) &&
                std::is_same_v<ec_residence, std::underlying_type_t<kernels::Residence>>);
  return reinterpret_cast<const To*>(chunks);
}

Stripes stripes_of(const Names& names, const StripeShape& form, const ec_source* from, const ec_target* to,
                   Stream stream) {
  // The number of stripes times their chunks must not wrap around.
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(ec_source) / gf::max_chunks;
  if (form.stripes != 0) {
    if (form.sources != 0) need(from, names.from);
    if (form.targets != 0) need(to, names.to);
    if (form.stripes > most) refuse("stripes={} are more than memory can hold", form.stripes);
  }
  return {names, form, chunks_of(from), chunks_of(to), stream.has_value()};
}

std::span<const unsigned> numbers(const Engine& engine, std::string_view name, const unsigned* chunks,
                                  std::size_t count) {
  const unsigned most = engine.k() + engine.m();
  if (count > most) refuse("{}_count={}; there are {} chunks", name, count, most);
  if (count != 0) need(chunks, name);
  return {chunks, count};
}

int encode(const ec_codec* codec, std::size_t stripes, const ec_source* data, const ec_target* coding,
           std::size_t bytes, Stream stream) {
  return answer([&] {
    const Engine& engine = engine_of(codec);
    const unsigned k = engine.k(), m = engine.m();
    if (stripes == 1 && !stream)
      if (const auto status = engine.code_at_once(
              Operation::encode,
              {&engine.encode_program(), {chunks_of(data), k}, {chunks_of(coding), m}, bytes}))
        return *status;
    return engine.encode(stripes_of(encode_names, {stripes, bytes, k, m}, data, coding, stream), stream);
  });
}

int decode(const ec_codec* codec, std::size_t stripes, const unsigned* available, std::size_t available_count,
           const ec_source* sources, const unsigned* wanted, std::size_t wanted_count,
           const ec_target* targets, std::size_t bytes, Stream stream, bool checked = false) {
  return answer([&] {
    const Engine& engine = engine_of(codec);
    // The lists first: a wrong count must not decide how many chunks are read below.
    std::unique_ptr<const Decoding> made;
    const auto& decoding = engine.decoding(numbers(engine, "available", available, available_count),
                                           numbers(engine, "wanted", wanted, wanted_count), made);
    if (stripes == 1 && !stream && !checked && decoding.as_given)
      if (const auto status = engine.code_at_once(Operation::decode, {&decoding.plan->program,
                                                                      {chunks_of(sources), available_count},
                                                                      {chunks_of(targets), wanted_count},
                                                                      bytes}))
        return *status;
    const StripeShape form{stripes, bytes, available_count, wanted_count};
    const auto given = stripes_of(decode_names, form, sources, targets, stream);
    if (checked) return engine.checked_decode(decoding, {available, available_count}, given);
    return engine.decode(decoding, given, stream);
  });
}

int add(ec_accumulator* accumulator, unsigned chunk, const ec_source* chunks, Stream stream) {
  return answer([&] {
    need(accumulator, "accumulator");
    auto& state = accumulator->state;
    if (state.stripes() != 0) need(chunks, "chunks");
    return state.add(chunk, chunks_of(chunks), stream);
  });
}

/// JSON, as ec/ec.h says.
std::string identify(std::span<const ec_source> shards, std::size_t bytes) {
  std::vector<const std::uint8_t*> places;
  for (const auto& shard : shards) {
    if (shard.residence != EC_PAGEABLE && shard.residence != EC_PINNED)
      refuse("shards[{}] has residence {}; allowed are 0 (pageable), 1 (pinned)", places.size(),
             shard.residence);
    if (shard.data == nullptr && bytes != 0) refuse("shards[{}] is null", places.size());
    places.push_back(static_cast<const std::uint8_t*>(shard.data));
  }
  const gf::Identity found = gf::identify(places, bytes);
  std::vector<std::string> fits;
  for (const auto& fit : found.fits)
    fits.push_back(fmt::format(R"({{"dialect": "{}", "m": {}, "order": {}, "sole": {}}})", fit.dialect, fit.m,
                               fit.order, fit.is_sole));
  std::vector<std::span<const std::uint8_t>> checks;
  for (unsigned r = 0; r < found.checks.rows(); ++r) checks.push_back(found.checks.row(r));
  return fmt::format(
      R"({{"k": {}, "columns": {}, "obeying": {}, "first_bad": {}, "damaged": {}, "outside": {}, )"
      R"("fits": [{}], "cannot_tell": {}, "checks": {}}})",
      found.k, found.columns, found.obeying, found.first_bad, found.damaged, found.outside,
      fmt::join(fits, ", "), found.untold, checks);
}

}  // namespace
}  // namespace ec::library

using namespace ec::library;  // NOLINT: the rest of this file is the C functions below

extern "C" {

int ec_codec_create(unsigned k, unsigned m, ec_technique technique, ec_codec** codec) {
  return answer([&] {
    need(codec, "codec");
    *codec = nullptr;
    check_technique(technique);
    *codec = new ec_codec{{static_cast<ec::Technique>(technique), k, m}};
    return ec::kernels::Status::ok;
  });
}

int ec_codec_create_matrix(unsigned k, unsigned m, const unsigned char* coding, unsigned flags,
                           ec_codec** codec) {
  return answer([&] {
    need(codec, "codec");
    *codec = nullptr;
    if (flags > EC_ANY_MATRIX) refuse("flags={}; allowed are 0, 1 (EC_ANY_MATRIX)", flags);
    const auto kind = flags == 0 ? ec::MatrixKind::mds : ec::MatrixKind::any;
    *codec = new ec_codec{{matrix_of(k, m, coding), kind}};
    return ec::kernels::Status::ok;
  });
}

int ec_coding_matrix(const char* dialect, unsigned k, unsigned m, unsigned char* coding) {
  return answer([&] {
    need(dialect, "dialect");
    const auto made = dialect_matrix(dialect, k, m);
    need(coding, "coding");
    std::ranges::copy(made.cells(), coding);
    return ec::kernels::Status::ok;
  });
}

void ec_codec_destroy(ec_codec* codec) { delete codec; }

unsigned ec_codec_k(const ec_codec* codec) { return codec == nullptr ? 0 : codec->engine.k(); }
unsigned ec_codec_m(const ec_codec* codec) { return codec == nullptr ? 0 : codec->engine.m(); }
int ec_codec_mds(const ec_codec* codec) {
  return static_cast<int>(codec == nullptr ? ec::Mds::no : codec->engine.mds());
}

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

int ec_checked_decode(const ec_codec* codec, size_t stripes, const unsigned* available,
                      size_t available_count, const ec_source* sources, const unsigned* wanted,
                      size_t wanted_count, const ec_target* targets, size_t chunk_bytes) {
  return decode(codec, stripes, available, available_count, sources, wanted, wanted_count, targets,
                chunk_bytes, {}, true);
}

int ec_verify(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
              const ec_source* sources, size_t chunk_bytes, ec_verdict* verdict) {
  return answer([&] {
    const Engine& engine = engine_of(codec);
    need(verdict, "verdict");
    const auto list = numbers(engine, "available", available, available_count);
    engine.check_available(list);
    const StripeShape form{stripes, chunk_bytes, available_count, 0};
    ec::Verdict found;
    const auto status = engine.verify(list, stripes_of(verify_names, form, sources, nullptr, {}), found);
    if (status == ec::kernels::Status::ok)
      *verdict = {found.agree, found.chunk ? static_cast<int>(*found.chunk) : -1, found.stripe, found.byte};
    return status;
  });
}

int ec_verify_async(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
                    const ec_source* sources, size_t chunk_bytes, uint64_t* difference, CUstream_st* stream) {
  return answer([&] {
    const Engine& engine = engine_of(codec);
    const auto list = numbers(engine, "available", available, available_count);
    engine.check_available(list);
    const StripeShape form{stripes, chunk_bytes, available_count, 0};
    return engine.verify_on(list, stripes_of(verify_names, form, sources, nullptr, stream), difference,
                            stream);
  });
}

int ec_update(const ec_codec* codec, size_t stripes, unsigned chunk, const ec_source* delta,
              const ec_target* coding, size_t chunk_bytes) {
  return answer([&] {
    const Engine& engine = engine_of(codec);
    const StripeShape form{stripes, chunk_bytes, 1, engine.m()};
    return engine.update(chunk, stripes_of(update_names, form, delta, coding, {}));
  });
}

int ec_begin(const ec_codec* codec, size_t stripes, const unsigned* available, size_t available_count,
             const unsigned* wanted, size_t wanted_count, const ec_target* targets, size_t chunk_bytes,
             ec_accumulator** accumulator) {
  return answer([&] {
    need(accumulator, "accumulator");
    *accumulator = nullptr;
    const Engine& engine = engine_of(codec);
    const auto have = numbers(engine, "available", available, available_count);
    const auto want = numbers(engine, "wanted", wanted, wanted_count);
    const StripeShape form{stripes, chunk_bytes, 0, wanted_count};
    const auto into = stripes_of(add_names, form, nullptr, targets, {});
    // The caller keeps the codec.
    *accumulator = new ec_accumulator{{{std::shared_ptr<void>(), &engine}, have, want, into}};
    return ec::kernels::Status::ok;
  });
}

int ec_add(ec_accumulator* accumulator, unsigned chunk, const ec_source* chunks) {
  return add(accumulator, chunk, chunks, {});
}

int ec_add_async(ec_accumulator* accumulator, unsigned chunk, const ec_source* chunks, CUstream_st* stream) {
  return add(accumulator, chunk, chunks, stream);
}

int ec_end(ec_accumulator* accumulator) {
  const std::unique_ptr<ec_accumulator> ended(accumulator);
  return answer([&] {
    if (ended) ended->state.end();
    return ec::kernels::Status::ok;
  });
}

int ec_identify(const ec_source* shards, size_t count, size_t shard_bytes, char** found) {
  return answer([&] {
    need(found, "found");
    *found = nullptr;
    need(shards, "shards");
    if (count < 2 || count > ec::gf::max_chunks) refuse("count={}; allowed are 2 to 255", count);
    *found = ::strdup(identify({shards, count}, shard_bytes).c_str());
    if (*found == nullptr) throw std::bad_alloc();
    return ec::kernels::Status::ok;
  });
}

const char* ec_error_text(void) { return last_error; }

const char* ec_version(void) { return ec::version(); }

}  // extern "C"
