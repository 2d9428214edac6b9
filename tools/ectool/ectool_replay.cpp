// ectool replay: see ectool_replay.hpp.
#include "tools/ectool/ectool_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/transfer.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "tools/ectool/ectool_device.hpp"

namespace ec::tools {
namespace {

using codec::Reproducer;
using kernels::Residence;
using kernels::Status;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t page = 4096;
/// Of all chunks of a call together, and products of a byte by a coefficient: seconds of work.
constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20, most_products = std::uint64_t{1} << 32;
/// A chip that fails now and then shall have the chance.
constexpr unsigned runs = 3;

/// The call, or the part of it with the block in it where whole chunks are too long.
class Call {
 public:
  explicit Call(const Reproducer& r) : r_(r), program_(r.matrix()) {
    const auto& h = r.head;
    const std::uint64_t chunks = h.sources + h.targets;
    const std::uint64_t longest = std::min(most_bytes / chunks, most_products / (h.sources * h.targets));
    bytes_ = std::min(h.chunk_bytes, std::max<std::uint64_t>(longest, h.block_bytes));
    first_ = std::min(h.block_offset, h.chunk_bytes - bytes_);
    for (std::size_t i = 0; i < chunks; ++i) {
      Bytes& chunk = chunks_.emplace_back(bytes_);
      for (std::size_t at = 0; at < bytes_; ++at)
        chunk[at] =
            static_cast<std::uint8_t>((at + i * 1'000'003 + 1) * std::uint64_t{0x9e3779b97f4a7c15} >> 56);
      const bool is_source = i < h.sources;
      if (is_source || r.verb() == kernels::Verb::accumulate)
        std::ranges::copy(
            is_source ? r.block(Reproducer::source, i) : r.block(Reproducer::before, i - h.sources),
            chunk.begin() + static_cast<std::ptrdiff_t>(h.block_offset - first_));
    }
  }

  /// The targets that `backend` makes; nothing if it does not take the job, with chunks where they were if
  /// `in_place`, else in ordinary memory. Throws std::runtime_error if it fails, or there is no such memory.
  std::optional<std::vector<Bytes>> run(kernels::Backend& backend, bool in_place) const {
    std::vector<Chunks> memory;
    std::vector<kernels::Source> sources;
    std::vector<kernels::Target> targets;
    std::vector<kernels::Transfer> in, out;
    std::vector<Bytes> made(r_.head.targets, Bytes(bytes_));
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const auto residence = in_place ? static_cast<Residence>(r_.place(i).residence) : Residence::pageable;
      std::uint8_t* data = memory.emplace_back(1, bytes_ + 2 * page, residence).target(0).data;
      data +=
          page - reinterpret_cast<std::uintptr_t>(data) % page + (r_.place(i).misalignment + first_) % page;
      in.push_back({data, residence, const_cast<std::uint8_t*>(chunks_[i].data()), bytes_});
      if (i < r_.head.sources) {
        sources.push_back({data, residence});
      } else {
        out.push_back({data, residence, made[targets.size()].data(), bytes_});
        targets.push_back({data, residence});
      }
    }
    const kernels::Job job{&program_, sources, targets, bytes_};
    Status status = kernels::store(in);
    if (status == Status::ok) status = codec::perform(backend, {r_.verb(), {&job, 1}});
    if (status == Status::unsupported) return std::nullopt;
    if (status == Status::ok) status = kernels::fetch(out);
    if (status != Status::ok) throw std::runtime_error(fmt::format("answers {}", kernels::name(status)));
    return made;
  }

  /// "right", or the first byte that is not. made: whole targets, or only their blocks.
  std::string verdict(const std::vector<Bytes>& made, const std::vector<Bytes>& truth) const {
    for (std::size_t t = 0; t < truth.size(); ++t) {
      const bool whole = made[t].size() == bytes_;
      const auto right =
          std::span(truth[t]).subspan(whole ? 0 : r_.head.block_offset - first_, made[t].size());
      const auto [have, want] = std::ranges::mismatch(made[t], right);
      if (have != made[t].end())
        return fmt::format(
            "WRONG: byte {} of target {} is {:#04x} and must be {:#04x}",
            (whole ? first_ : r_.head.block_offset) + static_cast<std::uint64_t>(have - made[t].begin()), t,
            *have, *want);
    }
    return "right";
  }

 private:
  const Reproducer& r_;
  const kernels::Program program_;
  std::uint64_t first_, bytes_;  ///< of each chunk
  std::vector<Bytes> chunks_;    ///< sources, then targets as they are before
};

std::string try_out(kernels::Backend& backend, const Call& call, const std::vector<Bytes>& truth,
                    bool in_place) try {
  std::string found = "right";
  for (unsigned i = 0; i < runs && found == "right"; ++i) {
    const auto made = call.run(backend, in_place);
    found = made ? call.verdict(*made, truth) : "does not take this here";
  }
  return found;
} catch (const std::runtime_error& e) {
  return fmt::format("FAILED: {}", e.what());
}

std::vector<Bytes> blocks(const Reproducer& r, Reproducer::Part part) {
  std::vector<Bytes> all;
  for (std::size_t t = 0; t < r.head.targets; ++t)
    all.emplace_back(r.block(part, t).begin(), r.block(part, t).end());
  return all;
}

}  // namespace

bool replay(const Reproducer& r, const codec::NodeSettings& node,
            const std::function<void(const std::string&)>& say) {
  const auto& h = r.head;
  const Call call(r);
  const std::vector<Bytes> truth = call.run(*kernels::backends().back(), false).value();
  say(fmt::format("{} {}x{}, chunks of {} bytes, {} stripe{}, block of {} bytes at {}",
                  r.verb() == kernels::Verb::accumulate ? "accumulate" : "transform", h.targets, h.sources,
                  h.chunk_bytes, h.stripes, h.stripes == 1 ? "" : "s", h.block_bytes, h.block_offset));
  const std::string judged = call.verdict(blocks(r, Reproducer::expected), truth);
  say(fmt::format("{:<15} {}: {}; {}: {}", "recorded", h.backend.data(),
                  call.verdict(blocks(r, Reproducer::got), truth), h.judge.data(), judged));
  bool all_right = judged == "right";
  std::string why;
  const std::string device = device_name(node, &why);
  for (const auto list : {kernels::backends(), kernels::variants()})
    for (kernels::Backend* backend : list) {
      const bool on_device = backend->name().starts_with("cuda");
      const std::string said = on_device && device.empty() ? fmt::format("no GPU ({})", why)
                                                           : try_out(*backend, call, truth, on_device);
      if (said.starts_with("WRONG") || said.starts_with("FAILED")) all_right = false;
      say(fmt::format("{:<15} {}", backend->name(), said));
    }
  return all_right;
}

}  // namespace ec::tools
