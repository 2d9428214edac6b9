// Sets of version 2 at work: runs of neighbouring columns, each a block of every slice. One pass reads all,
// says what is lost, and makes what is wanted; a new set is one of which all coding slices are wanted.
#pragma once

#include <atomic>
#include <vector>

#include "tools/ec/layout.hpp"
#include "tools/ec/pipeline.hpp"
#include "tools/ec/set.hpp"

namespace ec::file {

/// What a pass makes.
struct OutputPlan {
  struct Output {
    bool is_wanted = false;
    NewFile* file = nullptr;     ///< none: only its digest is wanted
    std::vector<Checksum> sums;  ///< of the file's blocks; of a file shorter than a block its digest
  };

  explicit OutputPlan(const SetHeader& set) : files(set.files.size()), shards(set.shards()) {}

  std::vector<Output> files;
  std::vector<NewFile*> shards;
};

/// What a record says of a data block.
struct RecordSum {
  bool is_known = false;
  Checksum checksum{};
  std::uint32_t crc = 0;
};

class Columns {
 public:
  /// `is_new`: there is nothing to compare with yet. Throws Failure if the library does not code the shape.
  Columns(const ShardSet& set, unsigned threads, bool is_new = false);

  const Layout& layout() const { return layout_; }
  /// Columns from here on are lost: the files are too short, whatever is in them. Headers claim what they
  /// like, and this is what there can be. A plan is for sets of which all are there.
  std::uint64_t columns_there() const;
  /// Makes room in the plan for a file's sums.
  void want(OutputPlan* plan, std::size_t file, NewFile* output) const;
  /// One pass. Counts bad blocks anew; returns how many columns have more than m lost blocks. Throws Failure.
  std::uint64_t read(OutputPlan* plan, bool is_shown, const char* what);
  /// Whether there are columns in which nothing but this file's digest says whether it is right.
  bool is_unproven(std::size_t file) const { return unproven_[file] != 0; }

  /// Of what read has made of a file, and of a shard.
  Checksum digest_of(const OutputPlan& plan, std::size_t file) const;
  const Checksum& digest_of(unsigned shard) const { return digests_[shard - set_.header.k]; }
  /// What the records say of the blocks of files that have blocks of their own.
  std::vector<std::vector<RecordSum>> sums_of(const std::vector<std::size_t>& files) const;
  /// The digest of so many bytes of a file, as they are now.
  Checksum digest_of(const File& file, std::uint64_t bytes) const;

 private:
  class Batch;
  std::size_t stride() const { return batch_columns_ * block_ + 64; }
  void work_on(Batch& batch, OutputPlan* plan);
  /// Reads a record into `block` and `tail`, and says whether the record is as it was written.
  bool reads_record(const ShardFile& file, unsigned shard, std::uint64_t column, std::span<std::byte> block,
                    std::span<std::byte> tail) const;
  void read_records(Batch& batch, unsigned shard);
  void read_slice(Batch& batch, unsigned slice);
  bool has_found(Batch& batch, unsigned slice, std::uint64_t column);
  bool judge(const Batch& batch, unsigned slice, std::uint64_t column, bool is_known_bad);
  void make(Batch& batch, const OutputPlan& plan);
  void write(Batch& batch, OutputPlan* plan);

  const ShardSet& set_;
  const bool is_new_;
  const Codec codec_;
  const unsigned k_, shards_;
  const std::size_t block_, sums_, record_, header_;  ///< bytes
  const std::uint64_t columns_;
  const Layout layout_;
  unsigned threads_;
  std::uint64_t batch_columns_ = 1;  ///< columns
  std::vector<std::atomic<char>> unproven_;
  std::atomic<std::uint64_t> lost_{0};
  std::mutex mutex_;
  std::vector<Checksum> digests_;
};

}  // namespace ec::file
