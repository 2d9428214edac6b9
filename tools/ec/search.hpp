// Looks for what a set of version 2 misses in other places: files that were moved, and blocks that bytes put
// in or removed have shifted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/ec/columns.hpp"
#include "tools/ec/set.hpp"

namespace ec::file {

class Search {
 public:
  /// Finds a file of the right content for each file that is missing or has another length, in the
  /// directories that were named, `is_recursive`: and in what is in them. Throws Failure.
  Search(ShardSet* set, const Columns& columns, bool is_recursive);
  /// After a pass that found too little: looks for the content of all damaged files, and for their blocks at
  /// any place of a file. Returns whether there is something new to read; false at the second call. Throws
  /// Failure.
  bool find_content();

 private:
  struct Candidate {
    Place base;
    std::string name;  ///< an inner path
    std::uint64_t bytes;
    struct stat st;
    std::optional<Checksum> digest;  ///< once it was needed: many files may be equally long
  };

  void list();
  void find_whole(const std::vector<std::size_t>& wanted);
  void find_blocks(std::size_t file, const File& in, const std::vector<RecordSum>& sums);

  ShardSet& set_;
  const Columns& columns_;
  const bool is_recursive_;
  bool is_done_ = false;
  std::vector<Candidate> candidates_;
};

}  // namespace ec::file
