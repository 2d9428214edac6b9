#include "tools/ec/search.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>

#include "tools/ec/failure.hpp"
#include "tools/ec/tree.hpp"

namespace ec::file {
namespace {

constexpr std::size_t buffer_bytes = 4 << 20;
/// Equal CRCs of other bytes are chance; where they are many they are somebody's work, and the search ends.
constexpr unsigned most_false_hits = 1000;

/// CRCs of all windows of a length, one after the other.
class RollingCrc {
 public:
  explicit RollingCrc(std::size_t window) {
    std::vector<std::byte> bytes(window + 1);
    for (unsigned i = 0; i < 256; ++i) {
      bytes[0] = std::byte(i);
      in_[i] = crc_of(std::span(bytes).first(1));
      out_[i] = crc_of(bytes);
    }
  }
  std::uint32_t next(std::uint32_t crc, std::byte out, std::byte in) const {
    return (crc >> 8) ^ in_[(crc ^ std::to_integer<std::uint32_t>(in)) & 0xff] ^
           out_[std::to_integer<unsigned>(out)];
  }

 private:
  std::array<std::uint32_t, 256> in_, out_;
};

/// The bytes of a file from some place on, read in long parts.
class Window {
 public:
  explicit Window(const File& file) : file_(file), buffer_(buffer_bytes) {}

  /// Fewer at the end of the file.
  std::span<const std::byte> at(std::uint64_t offset, std::size_t bytes) {
    if (offset < begin_ || offset + bytes > begin_ + got_) {
      end_if_interrupted();
      begin_ = offset;
      got_ = file_.read_at(buffer_, offset);
    }
    const std::size_t from = offset - begin_;
    return std::span(buffer_).subspan(from, std::min(bytes, got_ - from));
  }

 private:
  const File& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
  std::size_t got_ = 0;
};

}  // namespace

void Search::list() {
  if (!candidates_.empty()) return;
  // A file of the set's own directory may be moved, and comes before its copies.
  std::stable_partition(set_.places.begin(), set_.places.end(),
                        [&](const Place& place) { return place == set_.kept.front().place; });
  for (const auto& place : set_.places) {
    std::vector<std::string> names, left_out;
    list_tree(place, "", is_recursive_, &names, &left_out);
    for (auto& name : names)
      if (const auto there = place->look(name); there && S_ISREG(there->st_mode))
        candidates_.push_back({place, name, static_cast<std::uint64_t>(there->st_size), *there, {}});
  }
}

/// A file of the set's directory that nobody has changed since, and that is no other file of the set, is
/// moved if nothing has the name that it should have. Others are copied: equal bytes may be somebody's own
/// file.
void Search::find_whole(const std::vector<std::size_t>& wanted) {
  const auto key = [](const struct stat& st) { return std::pair(st.st_dev, st.st_ino); };
  std::set<std::pair<dev_t, ino_t>> taken;
  for (const auto& kept : set_.kept)
    if (kept.file) taken.insert(key(kept.file->opened()));
  for (const auto number : wanted) {
    ShardFile& kept = set_.kept[number];
    const FileEntry& entry = set_.header.files[number];
    const bool has_name = kept.place->look(kept.name).has_value();
    std::string parent = parent_of(kept.name);
    std::optional<struct stat> there;
    while (!parent.empty() && !(there = kept.place->look(parent))) parent = parent_of(parent);
    const dev_t device = there ? there->st_dev : kept.place->opened().st_dev;
    for (Candidate& candidate : candidates_) {
      end_if_interrupted();
      if (candidate.bytes != entry.bytes || (kept.file && is_same(kept.file->opened(), candidate.st)) ||
          (candidate.digest && candidate.digest != entry.digest))
        continue;
      auto file = File::find(candidate.base, candidate.name);
      if (!file) continue;
      if (!candidate.digest) candidate.digest = columns_.digest_of(*file, entry.bytes);
      if (candidate.digest != entry.digest) continue;
      kept.fault = fmt::format("{}its content is in {}", kept.is_obstructed ? kept.fault + "; " : "",
                               printable(file->path()));
      kept.file = std::move(file);
      if (!has_name && candidate.st.st_dev == device && candidate.base == kept.place &&
          is_unchanged(candidate.st, entry) && taken.insert(key(candidate.st)).second)
        kept.moved_from = {candidate.base, candidate.name};
      break;
    }
  }
}

Search::Search(ShardSet* set, const Columns& columns, bool is_recursive)
    : set_(*set), columns_(columns), is_recursive_(is_recursive) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < set_.kept.size(); ++i)
    if (set_.header.files[i].bytes > 0 && !set_.kept[i].fault.empty()) wanted.push_back(i);
  if (wanted.empty()) return;
  list();
  find_whole(wanted);
}

bool Search::find_content() {
  if (std::exchange(is_done_, true)) return false;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < set_.kept.size(); ++i)
    if (set_.header.files[i].bytes > 0 && set_.kept[i].bad_blocks > 0) wanted.push_back(i);
  list();
  find_whole(wanted);
  std::erase_if(wanted,
                [&](std::size_t i) { return !columns_.layout().has_own_blocks(set_.header.files[i]); });
  const auto sums = columns_.sums_of(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ShardFile& kept = set_.kept[wanted[i]];
    if (kept.file) find_blocks(wanted[i], *kept.file, sums[i]);
    for (const auto& candidate : candidates_) {
      if (last_name(candidate.name) != last_name(kept.name) ||
          (kept.file && is_same(kept.file->opened(), candidate.st)))
        continue;
      if (const auto file = File::find(candidate.base, candidate.name))
        find_blocks(wanted[i], *file, sums[i]);
    }
  }
  return true;
}

void Search::find_blocks(std::size_t number, const File& in, const std::vector<RecordSum>& sums) {
  const std::size_t block = set_.header.block_bytes();
  const std::uint64_t bytes = set_.header.files[number].bytes, whole = bytes / block;
  auto& found = set_.kept[number].found;
  std::unordered_multimap<std::uint32_t, std::uint64_t> by_crc;
  std::vector<bool> may_be(1 << 20);
  for (std::uint64_t i = 0; i < whole; ++i) {
    if (!sums[i].is_known) continue;
    by_crc.emplace(sums[i].crc, i);
    may_be[sums[i].crc % may_be.size()] = true;
  }
  Window window(in);
  const RollingCrc rolling(block);
  unsigned false_hits = 0;
  bool is_new = true;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at + block <= in.bytes() && false_hits < most_false_hits;) {
    const auto here = window.at(at, block + 1);
    if (here.size() < block) return;
    if (std::exchange(is_new, false)) crc = crc_of(here.first(block));
    if (may_be[crc % may_be.size()]) {
      const auto [first, last] = by_crc.equal_range(crc);
      bool is_found = false;
      if (first != last) {
        const Checksum checksum = plain_checksum(here.first(block));
        // One of equal blocks stays, by which the search skips the next of them.
        for (auto hit = first; hit != last;) {
          const bool is_equal = sums[hit->second].checksum == checksum;
          if (is_equal) found.try_emplace(hit->second, in, at);
          hit = is_equal && is_found ? by_crc.erase(hit) : std::next(hit);
          is_found = is_found || is_equal;
        }
        if (!is_found) ++false_hits;
      }
      if (is_found) {
        at += block;
        is_new = true;
        continue;
      }
    }
    if (here.size() > block) crc = rolling.next(crc, here[0], here[block]);
    ++at;
  }
  // The last part is behind the block before it, or at the end.
  const std::size_t rest = bytes % block;
  if (rest == 0 || in.bytes() < rest || !sums[whole].is_known) return;
  std::vector<std::uint64_t> places{in.bytes() - rest};
  if (const auto before = found.find(whole - 1); whole > 0 && before != found.end())
    places.push_back(before->second.second + block);
  for (const auto place : places)
    if (const auto here = window.at(place, rest);
        here.size() == rest && plain_checksum(here) == sums[whole].checksum)
      found.try_emplace(whole, in, place);
}

}  // namespace ec::file
