// The C++ door: spans in, spans of the rooms below out.
#include "ec/codec.hpp"

#include "plugin/library/engine.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/regions.hpp"

namespace ec {
namespace {

using library::Regions;

template <class Region, class Chunk>
Regions<Region> regions(std::span<const Chunk> chunks) {
  Regions<Region> all;
  all.reserve(chunks.size());
  for (const Chunk& c : chunks)
    all.push_back({reinterpret_cast<decltype(Region::data)>(c.bytes.data()),
                   static_cast<kernels::Residence>(c.residence)});
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
        library::refuse("{}[{}] has {} bytes and {}[0] has {}; all chunks of a call must be equally long",
                        name, i, bytes, name_, bytes_);
    }
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::string_view name_;
  std::size_t bytes_ = 0;
};

/// A call of the engine's with the chunks as it takes them: call(sources, targets, length).
template <class Call>
Error with_regions(std::string_view source_name, std::span<const Source> sources,
                   std::string_view target_name, std::span<const Target> targets, Call&& call) noexcept {
  return library::guarded([&] {
    Length length;
    length.take(source_name, sources);
    length.take(target_name, targets);
    return call(regions<kernels::Source>(sources), regions<kernels::Target>(targets), length.bytes());
  });
}

Error encode_by(const library::Engine& engine, std::span<const Source> data, std::span<const Target> coding,
                library::Completion completion) noexcept {
  return with_regions("data", data, "coding", coding, [&](auto&& from, auto&& to, std::size_t bytes) {
    return engine.encode(from, to, bytes, completion);
  });
}

Error decode_by(const library::Engine& engine, std::span<const unsigned> available,
                std::span<const Source> sources, std::span<const unsigned> wanted,
                std::span<const Target> targets, library::Completion completion) noexcept {
  return with_regions("sources", sources, "targets", targets, [&](auto&& from, auto&& to, std::size_t bytes) {
    return engine.decode(available, from, wanted, to, bytes, completion);
  });
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
  return encode_by(*engine_, data, coding, {});
}

Error Codec::encode_async(std::span<const Source> data, std::span<const Target> coding,
                          CUstream_st* stream) const noexcept {
  return encode_by(*engine_, data, coding, {.waits = false, .stream = stream});
}

Error Codec::decode(std::span<const unsigned> available, std::span<const Source> sources,
                    std::span<const unsigned> wanted, std::span<const Target> targets) const noexcept {
  return decode_by(*engine_, available, sources, wanted, targets, {});
}

Error Codec::decode_async(std::span<const unsigned> available, std::span<const Source> sources,
                          std::span<const unsigned> wanted, std::span<const Target> targets,
                          CUstream_st* stream) const noexcept {
  return decode_by(*engine_, available, sources, wanted, targets, {.waits = false, .stream = stream});
}

Error Codec::update(unsigned chunk, std::span<const Source> delta,
                    std::span<const Target> coding) const noexcept {
  return with_regions("delta", delta, "coding", coding, [&](auto&& from, auto&& to, std::size_t bytes) {
    return engine_->update(chunk, from, to, bytes);
  });
}

const char* version() noexcept { return ECCODER_VERSION; }

}  // namespace ec
