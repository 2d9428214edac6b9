// The C++ interface: hands checked chunks to the engine. The category of its errors.
#include "ec/codec.hpp"

#include <algorithm>
#include <new>

#include "plugin/library/engine.hpp"
#include "plugin/library/refusal.hpp"
#include "support/process_life.hpp"

namespace ec {
namespace {

using library::Converted;
using library::Engine;
using library::guarded;
using library::Names;
using library::refuse;
using library::Stream;

/// The message of a code, and a text that fits into a string without memory.
constexpr struct {
  Errc code;
  const char *message, *without_memory;
} texts[] = {
    {Errc::invalid_argument, "invalid argument", "no memory"},
    {Errc::too_few_chunks, "fewer than k chunks are available", "no memory"},
    {Errc::no_device, "no device for chunks in device memory", "no device"},
    {Errc::busy, "the device is busy", "device busy"},
    {Errc::device_fault, "the device failed", "device failed"},
    {Errc::device_hung, "the device stopped answering", "device hung"},
    {Errc::out_of_memory, "out of memory", "no memory"},
    {Errc::chunks_disagree, "the chunks available disagree", "disagreement"},
};

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "ec"; }
  std::string message(int code) const override {
    for (const auto& text : texts)
      if (static_cast<int>(text.code) == code) return text.message;
    return "unknown error";
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    return {code, std::generic_category()};
  }
};

/// Chunks stripe after stripe, so many in each; all as long as the first one.
Converted stripes_of(const Names& names, std::span<const Source> from, std::size_t sources,
                     std::span<const Target> to, std::size_t targets, Stream stream) {
  if (from.size() % sources != 0)
    refuse("{} has {} chunks; whole stripes have {} each", names.from, from.size(), sources);
  const std::size_t count = from.size() / sources;
  if (to.size() != count * targets)
    refuse("{} has {} chunks; {} stripe{} with {} each need {}", names.to, to.size(), count,
           count == 1 ? "" : "s", targets, count * targets);
  const std::size_t bytes = from.empty() ? 0 : from.front().bytes.size();
  return {names, {count, bytes, sources, targets}, from, to, stream.has_value()};
}

Error answer(kernels::Status status) noexcept {
  return status == kernels::Status::ok ? Error() : library::failure_of(status);
}

Error encode(const Engine& engine, std::span<const Source> data, std::span<const Target> coding,
             Stream stream) noexcept {
  return guarded([&] {
    return answer(engine.encode(
        stripes_of(library::encode_names, data, engine.k(), coding, engine.m(), stream), stream));
  });
}

Error decode(const Engine& engine, std::span<const unsigned> available, std::span<const Source> sources,
             std::span<const unsigned> wanted, std::span<const Target> targets, Stream stream,
             bool checked = false) noexcept {
  return guarded([&] {
    std::unique_ptr<const library::Decoding> made;
    const auto& decoding = engine.decoding(available, wanted, made);
    const Converted given =
        stripes_of(library::decode_names, sources, available.size(), targets, wanted.size(), stream);
    return answer(checked ? engine.checked_decode(decoding, available, given)
                          : engine.decode(decoding, given, stream));
  });
}

Error add_to(library::Accumulator& state, unsigned chunk, std::span<const Source> chunks,
             Stream stream) noexcept {
  return guarded([&] {
    if (chunks.size() != state.stripes())
      refuse("chunks has {} chunks; {} stripes need one each", chunks.size(), state.stripes());
    const library::StripeShape form{state.stripes(), state.bytes(), 1, 0};
    const Converted given(library::add_names, form, chunks, {}, stream.has_value());
    return answer(state.add(chunk, static_cast<const library::Stripes&>(given).sources.data(), stream));
  });
}

}  // namespace

const std::error_category& error_category() noexcept {
  static constinit NeverDestroyed<Category> category;
  return category.value;
}

std::error_code make_error_code(Errc code) noexcept { return {static_cast<int>(code), error_category()}; }

library::Failure::operator Error() const noexcept {
  try {
    return Error(code, text.c_str());
  } catch (const std::bad_alloc&) {
    const auto* const text = std::ranges::find(texts, code, [](const auto& t) { return t.code; });
    return Error(code, text->without_memory);
  }
}

Result<Codec> Codec::create(unsigned k, unsigned m, Technique technique) noexcept {
  return guarded([&]() -> Result<Codec> {
    library::check_technique(static_cast<int>(technique));
    return Codec(std::make_shared<const Engine>(technique, k, m));
  });
}

Result<Codec> Codec::create(unsigned k, unsigned m, std::span<const std::uint8_t> coding,
                            MatrixKind kind) noexcept {
  return guarded([&]() -> Result<Codec> {
    if (coding.size() != std::size_t{k} * m)
      refuse("coding has {} cells; k={} and m={} need {}", coding.size(), k, m, std::size_t{k} * m);
    return Codec(std::make_shared<const Engine>(library::matrix_of(k, m, coding.data()), kind));
  });
}

Result<std::vector<std::uint8_t>> coding_matrix(std::string_view dialect, unsigned k, unsigned m) noexcept {
  return guarded([&]() -> Result<std::vector<std::uint8_t>> {
    const auto made = library::dialect_matrix(dialect, k, m);
    return std::vector<std::uint8_t>(made.cells().begin(), made.cells().end());
  });
}

unsigned Codec::k() const noexcept { return engine_->k(); }
unsigned Codec::m() const noexcept { return engine_->m(); }
Technique Codec::technique() const noexcept { return engine_->technique(); }
Mds Codec::mds() const noexcept { return engine_->mds(); }

Error Codec::encode(std::span<const Source> data, std::span<const Target> coding) const noexcept {
  return ec::encode(*engine_, data, coding, {});
}

Error Codec::encode_async(std::span<const Source> data, std::span<const Target> coding,
                          CUstream_st* stream) const noexcept {
  return ec::encode(*engine_, data, coding, stream);
}

Error Codec::decode(std::span<const unsigned> available, std::span<const Source> sources,
                    std::span<const unsigned> wanted, std::span<const Target> targets) const noexcept {
  return ec::decode(*engine_, available, sources, wanted, targets, {});
}

Result<Verdict> Codec::verify(std::span<const unsigned> available,
                              std::span<const Source> sources) const noexcept {
  return guarded([&]() -> Result<Verdict> {
    engine_->check_available(available);
    Verdict verdict;
    const auto status = engine_->verify(
        available, stripes_of(library::verify_names, sources, available.size(), {}, 0, {}), verdict);
    if (status != kernels::Status::ok) return static_cast<Error>(library::failure_of(status));
    return verdict;
  });
}

Error Codec::verify_async(std::span<const unsigned> available, std::span<const Source> sources,
                          std::uint64_t* difference, CUstream_st* stream) const noexcept {
  return guarded([&] {
    engine_->check_available(available);
    const auto stripes = stripes_of(library::verify_names, sources, available.size(), {}, 0, stream);
    return answer(engine_->verify_on(available, stripes, difference, stream));
  });
}

Error Codec::checked_decode(std::span<const unsigned> available, std::span<const Source> sources,
                            std::span<const unsigned> wanted,
                            std::span<const Target> targets) const noexcept {
  return ec::decode(*engine_, available, sources, wanted, targets, {}, true);
}

Error Codec::decode_async(std::span<const unsigned> available, std::span<const Source> sources,
                          std::span<const unsigned> wanted, std::span<const Target> targets,
                          CUstream_st* stream) const noexcept {
  return ec::decode(*engine_, available, sources, wanted, targets, stream);
}

Result<Accumulator> Codec::begin(std::span<const unsigned> available, std::span<const unsigned> wanted,
                                 std::span<const Target> targets) const noexcept {
  return guarded([&]() -> Result<Accumulator> {
    const std::size_t each = wanted.size(), stripes = each == 0 ? 0 : targets.size() / each;
    if (targets.size() != stripes * each)
      refuse("targets has {} chunks; whole stripes have {} each", targets.size(), each);
    const library::StripeShape form{stripes, stripes == 0 ? 0 : targets.front().bytes.size(), 0, each};
    const Converted into(library::add_names, form, {}, targets, false);
    return Accumulator(std::make_shared<library::Accumulator>(engine_, available, wanted, into));
  });
}

Error Accumulator::add(unsigned chunk, std::span<const Source> chunks) const noexcept {
  return add_to(*state_, chunk, chunks, {});
}

Error Accumulator::add_async(unsigned chunk, std::span<const Source> chunks,
                             CUstream_st* stream) const noexcept {
  return add_to(*state_, chunk, chunks, stream);
}

Error Accumulator::end() const noexcept {
  return guarded([&] {
    state_->end();
    return Error();
  });
}

Error Codec::update(unsigned chunk, std::span<const Source> delta,
                    std::span<const Target> coding) const noexcept {
  return guarded([&] {
    return answer(engine_->update(chunk, stripes_of(library::update_names, delta, 1, coding, m(), {})));
  });
}

const char* version() noexcept { return ECCODER_VERSION; }

}  // namespace ec
