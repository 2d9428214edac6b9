// The C++ door: spans in, spans of the rooms below out.
#include "ec/codec.hpp"

#include <fmt/format.h>

#include "plugin/library/engine.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/regions.hpp"
#include "plugin/library/version.hpp"

namespace ec {
namespace {

using library::Regions;

kernels::Residence residence_of(Residence residence) { return static_cast<kernels::Residence>(residence); }

Regions<kernels::Source> regions(std::span<const Source> chunks) {
  Regions<kernels::Source> all;
  all.reserve(chunks.size());
  for (const Source& c : chunks)
    all.push_back({reinterpret_cast<const std::uint8_t*>(c.bytes.data()), residence_of(c.residence)});
  return all;
}

Regions<kernels::Target> regions(std::span<const Target> chunks) {
  Regions<kernels::Target> all;
  all.reserve(chunks.size());
  for (const Target& c : chunks)
    all.push_back({reinterpret_cast<std::uint8_t*>(c.bytes.data()), residence_of(c.residence)});
  return all;
}

/// The length of every chunk: of the first source, or of the first target where there is no source.
class Length {
 public:
  template <class Chunk>
  void take(std::string_view name, std::span<const Chunk> chunks) {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const std::size_t bytes = chunks[i].bytes.size();
      if (name_.empty()) {
        name_ = name;
        bytes_ = bytes;
      }
      if (bytes != bytes_)
        throw library::Refusal(
            Errc::invalid_argument,
            fmt::format("{}[{}] has {} bytes and {}[0] has {}; all chunks of a call must be equally long",
                        name, i, bytes, name_, bytes_));
    }
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::string_view name_;
  std::size_t bytes_ = 0;
};

std::size_t common_length(std::string_view source_name, std::span<const Source> sources,
                          std::string_view target_name, std::span<const Target> targets) {
  Length length;
  length.take(source_name, sources);
  length.take(target_name, targets);
  return length.bytes();
}

}  // namespace

Result<Codec> Codec::create(unsigned k, unsigned m, Technique technique) noexcept {
  auto engine = library::Engine::create(k, m, static_cast<int>(technique));
  if (!engine) return library::guarded([&]() -> Result<Codec> { return engine.error(); });
  return Codec(*std::move(engine));
}

unsigned Codec::k() const noexcept { return engine_->k(); }
unsigned Codec::m() const noexcept { return engine_->m(); }
Technique Codec::technique() const noexcept {
  return engine_->technique() == gf::Technique::cauchy ? Technique::cauchy : Technique::reed_sol_van;
}

Error Codec::encode(std::span<const Source> data, std::span<const Target> coding) const noexcept {
  return library::guarded([&] {
    const std::size_t bytes = common_length("data", data, "coding", coding);
    return engine_->encode(regions(data), regions(coding), bytes);
  });
}

Error Codec::decode(std::span<const unsigned> available, std::span<const Source> sources,
                    std::span<const unsigned> wanted, std::span<const Target> targets) const noexcept {
  return library::guarded([&] {
    const std::size_t bytes = common_length("sources", sources, "targets", targets);
    return engine_->decode(available, regions(sources), wanted, regions(targets), bytes);
  });
}

Error Codec::encode_async(std::span<const Source> data, std::span<const Target> coding,
                          CUstream_st* stream) const noexcept {
  return library::guarded([&] {
    const std::size_t bytes = common_length("data", data, "coding", coding);
    return engine_->encode(regions(data), regions(coding), bytes, {.waits = false, .stream = stream});
  });
}

Error Codec::decode_async(std::span<const unsigned> available, std::span<const Source> sources,
                          std::span<const unsigned> wanted, std::span<const Target> targets,
                          CUstream_st* stream) const noexcept {
  return library::guarded([&] {
    const std::size_t bytes = common_length("sources", sources, "targets", targets);
    return engine_->decode(available, regions(sources), wanted, regions(targets), bytes,
                           {.waits = false, .stream = stream});
  });
}

Error Codec::update(unsigned chunk, std::span<const Source> delta,
                    std::span<const Target> coding) const noexcept {
  return library::guarded([&] {
    const std::size_t bytes = common_length("delta", delta, "coding", coding);
    return engine_->update(chunk, regions(delta), regions(coding), bytes);
  });
}

const char* version() noexcept { return library::version; }

}  // namespace ec
