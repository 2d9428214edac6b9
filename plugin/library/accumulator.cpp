// Chunks as they come: each is added to all chunks made of it.
#include <algorithm>

#include "plugin/library/engine.hpp"

namespace ec::library {

using kernels::Status;

Accumulator::Accumulator(std::shared_ptr<const Engine> engine, std::span<const unsigned> available,
                         std::span<const unsigned> wanted, const Stripes& into)
    : engine_(std::move(engine)),
      decoding_(engine_->decoding(available, wanted, made_)),
      form_(into.form),
      targets_(into.targets.begin(), into.targets.end()),
      available_(gf::ChunkSet::of(available)),
      awaited_(available_),
      read_(gf::ChunkSet::of(decoding_.plan()->sources)) {
  form_.sources = 1;
}

Status Accumulator::add(unsigned chunk, const kernels::Source* chunks, Stream stream) {
  if (failed_) refuse("chunk {} failed when it was added; begin anew", *failed_);
  if (chunk >= gf::max_chunks || !available_.contains(chunk))
    refuse("chunk={} is not one of available", chunk);
  if (!awaited_.contains(chunk)) refuse("chunk={} was added before", chunk);
  const Stripes stripes(add_names, form_, chunks, targets_.data(), stream.has_value());
  if (read_.contains(chunk) && form_.stripes != 0) {
    const auto& order = decoding_.plan()->sources;
    const auto column = static_cast<unsigned>(std::ranges::find(order, chunk) - order.begin());
    const bool is_first = (read_ & awaited_) == read_;
    const Status status = engine_->add(decoding_, column, is_first, stripes, stream);
    if (status != Status::ok) {
      failed_ = chunk;
      return status;
    }
  }
  awaited_ = awaited_ - gf::ChunkSet{chunk};
  return Status::ok;
}

void Accumulator::end() const {
  if (failed_) refuse("chunk {} failed when it was added; begin anew", *failed_);
  if (const auto lacking = read_ & awaited_; !lacking.empty())
    refuse(Errc::too_few_chunks, "chunks {} were not added", fmt::join(lacking, ", "));
}

}  // namespace ec::library
