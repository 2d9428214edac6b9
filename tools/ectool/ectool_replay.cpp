#include "tools/ectool/ectool_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/transfer.hpp"
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

/// A chunk in memory of its residence, so far above a page boundary as that of the call was.
class Placed {
 public:
  /// Throws std::runtime_error if there is no such memory.
  Placed(const Bytes& content, Residence residence, std::size_t misalignment)
      : residence_(residence), bytes_(content.size()) {
    const std::size_t room = bytes_ + 2 * page;
    std::uint8_t* base = nullptr;
    if (residence == Residence::pageable) {
      host_.resize(room);
      base = host_.data();
    }
#ifdef EC_WITH_CUDA
    if (residence != Residence::pageable) {
      buffer_ = kernels::cuda::Buffer::allocate(room, residence);
      base = buffer_.data();
    }
#endif
    if (base == nullptr)
      throw std::runtime_error(fmt::format("no {} bytes of {} memory", room, kernels::name(residence)));
    const std::size_t above = reinterpret_cast<std::uintptr_t>(base) % page;
    data_ = base + (above == 0 ? 0 : page - above) + misalignment % page;
    copy(const_cast<std::uint8_t*>(content.data()), true);
  }

  std::uint8_t* data() const { return data_; }
  Residence residence() const { return residence_; }
  Bytes read() const {
    Bytes content(bytes_);
    copy(content.data(), false);
    return content;
  }

 private:
  void copy(std::uint8_t* host, bool in) const {
    const kernels::Transfer transfer{data_, residence_, host, bytes_};
    if ((in ? kernels::store({&transfer, 1}) : kernels::fetch({&transfer, 1})) != Status::ok)
      throw std::runtime_error("the device failed");
  }

  Residence residence_;
  std::size_t bytes_;
  Bytes host_;
  std::uint8_t* data_ = nullptr;
#ifdef EC_WITH_CUDA
  kernels::cuda::Buffer buffer_;
#endif
};

/// What is to be coded: the block by itself, or in a call with other bytes around it.
struct Case {
  bool accumulate = false;
  std::vector<Bytes> sources;
  std::vector<Bytes> before;     ///< of the targets
  std::size_t misalignment = 0;  ///< beyond that of the chunk
};

Bytes filler(std::size_t bytes, std::size_t chunk) {
  Bytes content(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    content[i] =
        static_cast<std::uint8_t>((i + chunk * 1'000'003 + 1) * std::uint64_t{0x9e3779b97f4a7c15} >> 56);
  return content;
}

Case block_of(const Reproducer& r) {
  Case c{r.accumulate, {}, {}, static_cast<std::size_t>(r.block.offset % page)};
  for (const auto& source : r.sources) c.sources.push_back(source.bytes);
  for (const auto& target : r.targets)
    c.before.push_back(r.accumulate ? target.before : filler(r.block.bytes, 0));
  return c;
}

/// Nothing if it is too large.
std::optional<Case> call_of(const Reproducer& r) {
  const std::uint64_t k = r.sources.size(), m = r.targets.size();
  if ((k + m) * r.chunk_bytes > most_bytes || k * m * r.chunk_bytes > most_products) return std::nullopt;
  Case c{r.accumulate, {}, {}, 0};
  const auto around = [&](const Bytes& block, std::size_t chunk) {
    Bytes content = filler(r.chunk_bytes, chunk);
    std::ranges::copy(block, content.begin() + static_cast<std::ptrdiff_t>(r.block.offset));
    return content;
  };
  for (std::size_t i = 0; i < k; ++i) c.sources.push_back(around(r.sources[i].bytes, i));
  for (std::size_t i = 0; i < m; ++i) c.before.push_back(around(r.targets[i].before, k + i));
  return c;
}

/// What `backend` makes of it; nothing if it does not take the job, with chunks where they were if
/// `in_place`, else in ordinary memory. Throws std::runtime_error if it fails.
std::optional<std::vector<Bytes>> run(kernels::Backend& backend, const Reproducer& r,
                                      const kernels::Program& program, const Case& c, bool in_place) {
  std::vector<std::unique_ptr<Placed>> placed;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  const auto place = [&](const Bytes& content, const Reproducer::Piece& piece) -> const Placed& {
    placed.push_back(std::make_unique<Placed>(content, in_place ? piece.residence : Residence::pageable,
                                              piece.misalignment + c.misalignment));
    return *placed.back();
  };
  for (std::size_t i = 0; i < c.sources.size(); ++i) {
    const Placed& p = place(c.sources[i], r.sources[i]);
    sources.push_back({p.data(), p.residence()});
  }
  for (std::size_t i = 0; i < c.before.size(); ++i) {
    const Placed& p = place(c.before[i], r.targets[i].got);
    targets.push_back({p.data(), p.residence()});
  }
  const kernels::Job job{&program, sources, targets, c.sources.front().size()};
  const Status status = c.accumulate ? backend.accumulate(job) : backend.transform(job);
  if (status == Status::unsupported) return std::nullopt;
  if (status != Status::ok) throw std::runtime_error(fmt::format("answers {}", kernels::name(status)));
  std::vector<Bytes> made;
  for (std::size_t i = c.sources.size(); i < placed.size(); ++i) made.push_back(placed[i]->read());
  return made;
}

/// "right", or the first byte that is not.
std::string verdict(const std::vector<Bytes>& got, const std::vector<Bytes>& truth) {
  for (std::size_t t = 0; t < truth.size(); ++t) {
    const auto [have, want] = std::ranges::mismatch(got[t], truth[t]);
    if (have != got[t].end())
      return fmt::format("WRONG: byte {} of target {} is {:#04x} and must be {:#04x}", have - got[t].begin(),
                         t, *have, *want);
  }
  return "right";
}

struct Exhibit {
  const char* name;
  Case what;
  std::vector<Bytes> truth;
};

std::string try_all(kernels::Backend& backend, const Reproducer& r, const kernels::Program& program,
                    const std::vector<Exhibit>& exhibits, bool in_place) {
  std::string text;
  for (const Exhibit& e : exhibits) {
    std::string found;
    for (unsigned i = 0; i < runs && (found.empty() || found == "right"); ++i) {
      const auto made = run(backend, r, program, e.what, in_place);
      if (!made) return "does not take this here";
      found = verdict(*made, e.truth);
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", e.name, found);
  }
  return text;
}

/// What was recorded, in words, beside the truth; *judge_was_right says whether that was expected then.
std::string recorded(const Reproducer& r, const std::vector<Bytes>& truth, bool* judge_was_right) {
  std::vector<Bytes> got, expected;
  for (const auto& target : r.targets) {
    got.push_back(target.got.bytes);
    expected.push_back(target.expected);
  }
  *judge_was_right = expected == truth;
  return fmt::format("{}: block {}; {}: block {}", r.backend, verdict(got, truth), r.judge,
                     verdict(expected, truth));
}

}  // namespace

bool replay(const Reproducer& r, const codec::NodeSettings& node,
            const std::function<void(const std::string&)>& say) {
  const kernels::Program program(r.matrix);
  kernels::Backend& floor = *kernels::backends().back();
  std::vector<Exhibit> exhibits;
  exhibits.push_back({"block", block_of(r), {}});
  auto call = call_of(r);
  if (call) exhibits.push_back({"call", *std::move(call), {}});
  for (Exhibit& e : exhibits) e.truth = run(floor, r, program, e.what, false).value();

  say(fmt::format("{} {}x{}, chunks of {} bytes, {} stripe{}, block of {} bytes at {}; {}, {}",
                  r.accumulate ? "accumulate" : "transform", r.matrix.rows(), r.matrix.cols(), r.chunk_bytes,
                  r.stripes, r.stripes == 1 ? "" : "s", r.block.bytes, r.block.offset, r.date, r.cpu));
  bool all_right = true;
  say(fmt::format("{:<15} {}", "recorded", recorded(r, exhibits.front().truth, &all_right)));
  if (exhibits.size() == 1) say("The whole call is too large to be run again; its block is.");
  std::string why;
  const std::string device = device_name(node, &why);
  for (const auto list : {kernels::backends(), kernels::variants()})
    for (kernels::Backend* backend : list) {
      const bool on_device = backend->name().starts_with("cuda");
      std::string said;
      if (on_device && device.empty())
        said = fmt::format("no GPU ({})", why);
      else
        try {
          said = try_all(*backend, r, program, exhibits, on_device);
        } catch (const std::runtime_error& e) {
          said = fmt::format("FAILED: {}", e.what());
        }
      all_right =
          all_right && said.find("WRONG") == std::string::npos && said.find("FAILED") == std::string::npos;
      say(fmt::format("{:<15} {}", backend->name(), said));
    }
  return all_right;
}

}  // namespace ec::tools
