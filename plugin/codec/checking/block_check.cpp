// One block of columns of a job: see block_check.hpp.
#include "plugin/codec/checking/block_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "kernels/transfer.hpp"

namespace ec::codec {
namespace {

using kernels::Job;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::Transfer;

/// Transfers a few pieces at a time: a list of all would take 16 KiB of a stack that may be a fiber's.
class Transfers {
 public:
  /// move: kernels::fetch or kernels::store.
  explicit Transfers(Status (*move)(std::span<const Transfer>) noexcept) : move_(move) {}

  void add(const Transfer& one) {
    few_[count_++] = one;
    if (count_ == few_.size()) move_few();
  }
  /// Returns the first status that is not ok; nothing is transferred after it.
  Status finish() {
    move_few();
    return status_;
  }

 private:
  void move_few() {
    if (status_ == Status::ok) status_ = move_({few_.data(), count_});
    count_ = 0;
  }

  Status (*move_)(std::span<const Transfer>) noexcept;
  std::array<Transfer, 32> few_;
  std::size_t count_ = 0;
  Status status_ = Status::ok;
};

Status move_targets(const Job& job, std::uint8_t* here, Transfers transfers) {
  for (std::size_t i = 0; i < job.targets.size(); ++i)
    transfers.add({job.targets[i].data, job.targets[i].residence, here + i * job.bytes, job.bytes});
  return transfers.finish();
}

}  // namespace

bool SavedTargets::allocate(const Job& job) noexcept try {
  bytes.resize(job.targets.size() * job.bytes);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

Status SavedTargets::save(const Job& job) noexcept {
  return move_targets(job, bytes.data(), Transfers(kernels::fetch));
}

Status SavedTargets::restore(const Job& job) const noexcept {
  return move_targets(job, const_cast<std::uint8_t*>(bytes.data()), Transfers(kernels::store));
}

Status BlockViews::fetch() noexcept {
  for (const Source& s : job_.sources) sources_.push_back({s.data + block_.offset, Residence::pageable});
  for (const Target& t : job_.targets) targets_.push_back(t.data + block_.offset);
  return kernels::host_addressable(job_) ? Status::ok : copy_from_device();
}

Status BlockViews::copy_from_device() noexcept {
  Transfers transfers(kernels::fetch);
  std::uint8_t* here = copies_;
  // Points a view at the place of its copy.
  const auto copy = [&](const std::uint8_t*& view) {
    transfers.add({const_cast<std::uint8_t*>(view), Residence::device, here, block_.bytes});
    view = here;
    here += block_.bytes;
  };
  for (std::size_t i = 0; i < job_.sources.size(); ++i)
    if (job_.sources[i].residence == Residence::device) copy(sources_[i].data);
  for (std::size_t i = 0; i < job_.targets.size(); ++i)
    if (job_.targets[i].residence == Residence::device) copy(targets_[i]);
  return transfers.finish();
}

Status BlockViews::make(kernels::Backend& judge, const SavedTargets* before,
                        std::uint8_t* made) const noexcept {
  boost::container::static_vector<Target, gf::max_chunks> targets;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    targets.push_back({made + i * block_.bytes, Residence::pageable});
    if (before != nullptr)
      std::memcpy(targets.back().data, before->bytes.data() + i * job_.bytes + block_.offset, block_.bytes);
  }
  const Job job{
      job_.program, {sources_.data(), sources_.size()}, {targets.data(), targets.size()}, block_.bytes};
  return before != nullptr ? judge.accumulate(job) : judge.transform(job);
}

std::optional<Difference> first_difference(const BlockViews& views, const std::uint8_t* got,
                                           const std::uint8_t* expected) noexcept {
  const std::size_t bytes = views.block().bytes;
  for (std::size_t i = 0; i < views.job().targets.size(); ++i) {
    const std::uint8_t* want = expected + i * bytes;
    const std::uint8_t* have = got != nullptr ? got + i * bytes : views.target(i);
    if (std::memcmp(have, want, bytes) == 0) continue;
    const auto at = static_cast<std::size_t>(std::mismatch(have, have + bytes, want).first - have);
    return Difference{i, at, have[at], want[at]};
  }
  return std::nullopt;
}

}  // namespace ec::codec
