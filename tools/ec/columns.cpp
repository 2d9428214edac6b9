#include "tools/ec/columns.hpp"

#include <cstring>
#include <thread>

#include "tools/ec/failure.hpp"

namespace ec::file {
namespace {

/// Of the buffers of all threads. A hard disk seeks once for each slice and run, so runs are long.
constexpr std::size_t most_memory = 256 << 20;
constexpr std::size_t most_batch_bytes = 1 << 20;  ///< of a slice

}  // namespace

/// Neighbouring columns in a buffer: for each shard its blocks, then for each column the sums of its data.
class Columns::Batch {
 public:
  /// chunks: as many as there are shards, or 1 where all take turns in one place.
  Batch(const Columns& all, unsigned chunks, std::byte* buffer, std::uint64_t first_, std::uint64_t count_)
      : first(first_),
        count(count_),
        used(count_),
        has_sums(count_),
        is_lost(count_),
        all_(all),
        chunks_(chunks),
        buffer_(buffer),
        lost_(count_ * all.shards_),
        checksums_(count_ * all.k_) {}

  static std::size_t buffer_bytes(const Columns& all, unsigned chunks) {
    return chunks * all.stride() + (all.batch_columns_ + 1) * (all.sums_ + checksum_bytes);
  }

  const std::uint64_t first, count;
  std::vector<std::size_t> used;  ///< bytes of the blocks of the slice that was read last
  std::vector<char> has_sums;
  std::vector<char> is_lost;  ///< more than m blocks are

  std::span<std::byte> chunk(unsigned shard) const {
    return {buffer_ + shard % chunks_ * all_.stride(), count * all_.block_};
  }
  std::span<std::byte> block(unsigned shard, std::uint64_t column) const {
    return chunk(shard).subspan(column * all_.block_, all_.block_);
  }
  /// With room for a checksum behind them. That of column `count` is spare.
  std::span<std::byte> tail(std::uint64_t column) const {
    const std::size_t bytes = all_.sums_ + checksum_bytes;
    return {buffer_ + chunks_ * all_.stride() + column * bytes, bytes};
  }
  std::span<std::byte> sums(std::uint64_t column) const { return tail(column).first(all_.sums_); }
  std::span<std::byte> sum(std::uint64_t column, unsigned slice) const {
    return sums(column).subspan(slice * sum_bytes_2, sum_bytes_2);
  }
  std::span<char> losses(std::uint64_t column) {
    return std::span(lost_).subspan(column * all_.shards_, all_.shards_);
  }
  /// Of what is in the block.
  Checksum& checksum(std::uint64_t column, unsigned slice) { return checksums_[column * all_.k_ + slice]; }
  std::uint64_t first_block(unsigned slice) const { return slice * all_.columns_ + first; }

 private:
  const Columns& all_;
  const unsigned chunks_;
  std::byte* buffer_;
  std::vector<char> lost_;
  std::vector<Checksum> checksums_;
};

Columns::Columns(const ShardSet& set, unsigned threads, bool is_new)
    : set_(set),
      is_new_(is_new),
      codec_(make_codec(set.header.k, set.header.m, set.header.technique)),
      k_(set.header.k),
      shards_(set.header.shards()),
      block_(set.header.block_bytes()),
      sums_(set.header.sums_bytes()),
      record_(set.header.record_bytes),
      header_(set.header.header_bytes()),
      columns_(set.header.columns),
      layout_(set.header.files, static_cast<std::uint32_t>(block_)),
      threads_(threads == 0 ? std::max(1u, std::thread::hardware_concurrency()) : threads),
      unproven_(set.header.files.size()),
      digests_(set.header.m) {
  const std::size_t column = shards_ * block_ + sums_ + checksum_bytes;
  threads_ = static_cast<unsigned>(std::clamp<std::size_t>(most_memory / column, 1, threads_));
  const std::uint64_t most = std::min(most_batch_bytes / block_, (columns_ + threads_ - 1) / threads_);
  batch_columns_ = std::clamp<std::uint64_t>(most_memory / threads_ / column, 1, most);
}

void Columns::want(OutputPlan* plan, std::size_t file, NewFile* output) const {
  const FileEntry& entry = set_.header.files[file];
  auto& wanted = plan->files[file];
  wanted.is_wanted = true;
  wanted.file = output;
  wanted.sums.assign(layout_.has_own_blocks(entry) ? layout_.blocks_of(entry.bytes) : 1, plain_checksum({}));
}

Checksum Columns::digest_of(const OutputPlan& plan, std::size_t file) const {
  const auto& sums = plan.files[file].sums;
  return layout_.has_own_blocks(set_.header.files[file]) ? plain_checksum(std::as_bytes(std::span(sums)))
                                                         : sums[0];
}

std::vector<std::vector<RecordSum>> Columns::sums_of(const std::vector<std::size_t>& files) const {
  std::vector<std::vector<RecordSum>> all;
  for (const auto file : files) all.emplace_back(layout_.blocks_of(set_.header.files[file].bytes));
  std::vector<std::byte> record(record_);
  const auto bytes = std::span(record);
  for (std::uint64_t column = 0; column < columns_; ++column) {
    end_if_interrupted();
    bool is_known = false;
    for (unsigned shard = k_; shard < shards_; ++shard)
      for (const auto& file : set_.shards[shard])
        is_known = is_known || reads_record(file, shard, column, bytes.first(block_), bytes.subspan(block_));
    if (!is_known) continue;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::uint64_t first = layout_.first_block(files[i]);
      // The blocks of the file that are in this column.
      for (auto block = (columns_ + column - first % columns_) % columns_; block < all[i].size();
           block += columns_) {
        const auto* const sum = bytes.data() + block_ + (first + block) / columns_ * sum_bytes_2;
        all[i][block].is_known = true;
        std::memcpy(all[i][block].checksum.data(), sum, checksum_bytes);
        std::memcpy(&all[i][block].crc, sum + checksum_bytes, sizeof(std::uint32_t));
      }
    }
  }
  return all;
}

Checksum Columns::digest_of(const File& file, std::uint64_t bytes) const {
  std::vector<Checksum> sums;
  std::vector<std::byte> block(block_);
  for (std::uint64_t at = 0; at == 0 || at < bytes; at += block_) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block_, bytes - at));
    if (file.read_at(part, at) != part.size()) return {};
    sums.push_back(plain_checksum(part));
  }
  return bytes < block_ ? sums[0] : plain_checksum(std::as_bytes(std::span(sums)));
}

std::uint64_t Columns::columns_there() const {
  std::uint64_t covered = 0;
  for (const auto& files : set_.shards)
    for (const auto& file : files)
      if (file.bytes() > header_) covered = std::max(covered, (file.bytes() - header_) / record_);
  if (is_new_ || covered >= columns_) return columns_;
  // Without coding all data must be there.
  for (std::size_t i = 0; i < set_.kept.size(); ++i) {
    const std::uint64_t bytes = set_.header.files[i].bytes, there = set_.kept[i].bytes();
    if (there >= bytes) continue;
    const std::uint64_t begin = layout_.first_block(i) + there / block_;
    const std::uint64_t last = layout_.first_block(i) + layout_.blocks_of(bytes) - 1;
    if (last - begin + 1 >= columns_ || last % columns_ < begin % columns_ || last % columns_ >= covered)
      return covered;
  }
  return columns_;
}

std::uint64_t Columns::read(OutputPlan* plan, bool is_shown, const char* what) {
  for (const auto& file : set_.kept) file.bad_blocks = 0;
  for (const auto& files : set_.shards)
    for (const auto& file : files) file.bad_blocks = 0;
  for (auto& unproven : unproven_) unproven = 0;
  std::ranges::fill(digests_, Checksum{});
  const std::uint64_t there = columns_there();
  lost_ = columns_ - there;
  // Where nothing is made, a chunk is done with once it is judged: the first touch of room for all took most
  // of the time of a verify.
  const unsigned chunks = plan != nullptr ? shards_ : 1;
  Pipeline pipeline(threads_, what, set_.header.object_bytes, is_shown);
  pipeline.run((there + batch_columns_ - 1) / batch_columns_, Batch::buffer_bytes(*this, chunks),
               [&](auto number, auto* buffer) {
                 Batch batch(*this, chunks, buffer, number * batch_columns_,
                             std::min(batch_columns_, there - number * batch_columns_));
                 work_on(batch, plan);
                 pipeline.add(set_.header.object_bytes / columns_ * batch.count);
               });
  return lost_;
}

void Columns::work_on(Batch& batch, OutputPlan* plan) {
  for (unsigned i = k_; i < shards_; ++i) read_records(batch, i);
  for (unsigned i = 0; i < k_; ++i) read_slice(batch, i);
  for (std::uint64_t column = 0; column < batch.count; ++column)
    if (std::ranges::count(batch.losses(column), 1) > shards_ - k_) {
      batch.is_lost[column] = 1;
      ++lost_;
    }
  if (plan == nullptr) return;
  make(batch, *plan);
  write(batch, plan);
}

bool Columns::reads_record(const ShardFile& file, unsigned shard, std::uint64_t column,
                           std::span<std::byte> block, std::span<std::byte> tail) const {
  const std::uint64_t at = header_ + column * record_;
  if (file.file->read_at(block, at) != block.size() || file.file->read_at(tail, at + block_) != tail.size())
    return false;
  const Checksum right = record_checksum(block, tail.first(sums_), set_.header.uuid, shard, column);
  return std::memcmp(tail.data() + sums_, right.data(), right.size()) == 0;
}

void Columns::read_records(Batch& batch, unsigned shard) {
  for (std::uint64_t column = 0; column < batch.count; ++column) {
    const auto block = batch.block(shard, column);
    const auto tail = batch.tail(batch.count);
    const auto is_right = [&](const ShardFile& file) {
      return reads_record(file, shard, batch.first + column, block, tail);
    };
    // Each file is judged: one whose blocks are found in another is not whole by that.
    const ShardFile* sound = nullptr;
    bool is_sound = false;
    for (const auto& file : set_.shards[shard]) {
      is_sound = is_right(file);
      if (is_sound)
        sound = &file;
      else
        ++file.bad_blocks;
    }
    // A damaged file may have been read over the block of a sound one.
    if (!is_sound && sound != nullptr) is_sound = is_right(*sound);
    batch.losses(column)[shard] = is_sound ? 0 : 1;
    if (!is_sound || batch.has_sums[column] != 0) continue;
    std::ranges::copy(tail.first(sums_), batch.sums(column).begin());
    batch.has_sums[column] = 1;
  }
}

void Columns::read_slice(Batch& batch, unsigned slice) {
  const auto chunk = batch.chunk(slice);
  std::ranges::fill(batch.used, 0);
  std::vector<char> is_short(batch.count);
  layout_.for_each_part(batch.first_block(slice), batch.count, [&](auto i, auto offset, auto bytes, auto at) {
    const ShardFile& kept = set_.kept[i];
    const std::size_t got = kept.file ? kept.file->read_at(chunk.subspan(at, bytes), offset) : 0;
    std::ranges::fill(chunk.subspan(at + got, bytes - got), std::byte{0});
    for (auto column = at / block_; column * block_ < at + bytes; ++column) {
      batch.used[column] = std::min<std::size_t>(block_, at + bytes - column * block_);
      if (at + got < column * block_ + batch.used[column]) is_short[column] = 1;
    }
    if (is_new_ && got < bytes)
      fail(Status::failure, "{} became shorter while it was read", printable(kept.path()));
  });
  for (std::uint64_t column = 0; column < batch.count; ++column) {
    const auto block = batch.block(slice, column), sum = batch.sum(column, slice);
    std::ranges::fill(block.subspan(batch.used[column]), std::byte{0});
    const Checksum checksum = batch.checksum(column, slice) = plain_checksum(block.first(batch.used[column]));
    if (batch.has_sums[column] != 0) {
      if (is_short[column] == 0 && std::memcmp(sum.data(), checksum.data(), checksum.size()) == 0) continue;
    } else {
      const std::uint32_t crc = crc_of(block.first(batch.used[column]));
      std::memcpy(sum.data(), checksum.data(), checksum.size());
      std::memcpy(sum.data() + checksum.size(), &crc, sizeof(crc));
      if (is_new_) continue;
    }
    batch.losses(column)[slice] =
        has_found(batch, slice, column) ||
                judge(batch, slice, column, batch.has_sums[column] != 0 || is_short[column] != 0)
            ? 0
            : 1;
  }
}

/// Whether the block is in another place. Then its file is damaged, and nothing is lost.
bool Columns::has_found(Batch& batch, unsigned slice, std::uint64_t column) {
  bool has_found = false;
  layout_.for_each_part(batch.first_block(slice) + column, 1, [&](auto i, auto offset, auto bytes, auto) {
    const auto& found = set_.kept[i].found;
    const auto place = found.find(offset / block_);
    if (place == found.end() || !layout_.has_own_blocks(set_.header.files[i]) || batch.has_sums[column] == 0)
      return;
    const auto part = batch.block(slice, column).first(bytes);
    const auto& [file, at] = place->second;
    if (file.read_at(part, at) != part.size()) return;
    batch.checksum(column, slice) = plain_checksum(part);
    has_found = std::memcmp(batch.sum(column, slice).data(), batch.checksum(column, slice).data(),
                            checksum_bytes) == 0;
    if (has_found) ++set_.kept[i].bad_blocks;
  });
  return has_found;
}

/// Whether the block is right though its sum is not, or is not known. Whose fault it is, is counted.
bool Columns::judge(const Batch& batch, unsigned slice, std::uint64_t column, bool is_known_bad) {
  bool is_right = true;
  layout_.for_each_part(batch.first_block(slice) + column, 1, [&](auto i, auto, auto bytes, auto at) {
    const FileEntry& entry = set_.header.files[i];
    const bool has_own_blocks = layout_.has_own_blocks(entry);
    if (has_own_blocks && !is_known_bad) unproven_[i] = 1;
    if (has_own_blocks ? !is_known_bad
                       : plain_checksum(batch.block(slice, column).subspan(at, bytes)) == entry.digest)
      return;
    ++set_.kept[i].bad_blocks;
    is_right = false;
  });
  return is_right;
}

/// Makes what is lost and wanted of the columns, those with equal losses at once.
void Columns::make(Batch& batch, const OutputPlan& plan) {
  const auto wanted_of = [&](std::uint64_t column) {
    std::vector<unsigned> wanted;
    for (unsigned i = 0; i < shards_; ++i) {
      if (batch.losses(column)[i] == 0) continue;
      bool is_wanted = i >= k_ && plan.shards[i] != nullptr;
      if (i < k_)
        layout_.for_each_part(batch.first_block(i) + column, 1,
                              [&](auto file, auto, auto, auto) { is_wanted |= plan.files[file].is_wanted; });
      if (is_wanted) wanted.push_back(i);
    }
    return wanted;
  };
  for (std::uint64_t begin = 0, end = 0; begin < batch.count; begin = end) {
    const auto losses = batch.losses(begin);
    const auto wanted = wanted_of(begin);
    end = begin + 1;
    while (end < batch.count && std::ranges::equal(batch.losses(end), losses) && wanted_of(end) == wanted)
      ++end;
    if (batch.is_lost[begin] != 0 || wanted.empty()) continue;
    std::vector<unsigned> available;
    for (unsigned i = 0; i < shards_ && available.size() < k_; ++i)
      if (losses[i] == 0) available.push_back(i);
    std::vector<Source> sources;
    std::vector<Target> targets;
    const auto part = [&](unsigned i) {
      return batch.chunk(i).subspan(begin * block_, (end - begin) * block_);
    };
    for (const unsigned i : available) sources.emplace_back(part(i));
    for (const unsigned i : wanted) targets.emplace_back(part(i));
    const bool is_all_coding = wanted.front() == k_ && wanted.size() == shards_ - k_;
    check(is_all_coding ? codec_.encode(sources, targets)
                        : codec_.decode(available, sources, wanted, targets));
    for (const unsigned i : wanted)
      for (auto column = begin; i < k_ && column < end; ++column) {
        std::size_t used = 0;
        layout_.for_each_part(batch.first_block(i) + column, 1,
                              [&](auto, auto, auto bytes, auto at) { used = at + bytes; });
        batch.checksum(column, i) = plain_checksum(batch.block(i, column).first(used));
      }
  }
}

void Columns::write(Batch& batch, OutputPlan* plan) {
  for (unsigned i = k_; i < shards_; ++i) {
    if (plan->shards[i] == nullptr) continue;
    Checksum digest{};
    for (std::uint64_t column = 0; column < batch.count; ++column) {
      const auto block = batch.block(i, column), tail = batch.tail(column);
      const Checksum checksum =
          record_checksum(block, tail.first(sums_), set_.header.uuid, i, batch.first + column);
      std::memcpy(tail.data() + sums_, checksum.data(), checksum.size());
      const std::uint64_t at = header_ + (batch.first + column) * record_;
      plan->shards[i]->write_at(block, at);
      plan->shards[i]->write_at(tail, at + block_);
      add_to(digest, checksum);
    }
    const std::lock_guard lock(mutex_);
    add_to(digests_[i - k_], digest);
  }
  // What has holes may be written again.
  if (std::ranges::count(batch.is_lost, 1) > 0) return;
  for (unsigned slice = 0; slice < k_; ++slice)
    layout_.for_each_part(
        batch.first_block(slice), batch.count, [&](auto i, auto offset, auto bytes, auto at) {
          auto& output = plan->files[i];
          if (!output.is_wanted) return;
          const auto part = batch.chunk(slice).subspan(at, bytes);
          if (!layout_.has_own_blocks(set_.header.files[i]))
            output.sums[0] = plain_checksum(part);
          else
            for (auto column = at / block_; column * block_ < at + bytes; ++column)
              output.sums[offset / block_ + column - at / block_] = batch.checksum(column, slice);
          if (output.file != nullptr) output.file->write_at(part, offset);
        });
}

}  // namespace ec::file
