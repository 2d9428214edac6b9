// Trees of files: what create -r takes, and the directories in which files of a tree are made.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ec/disk.hpp"
#include "tools/ec/format.hpp"

namespace ec::file {

Attributes attributes_of(const FileEntry& entry);
/// Whether it has the time of change that the entry says.
bool is_unchanged(const struct stat& there, const FileEntry& entry);

/// The last name of an inner path, and what is before it.
std::string last_name(const std::string& path);
std::string parent_of(const std::string& path);

/// Adds what is in a directory of `base`, by names from there: files and directories, sorted, and what is in
/// these if it is recursive. Links, special files, shards of sets and temporary files are left out. Throws
/// Failure.
void list_tree(const Place& base, const std::string& path, bool is_recursive, std::vector<std::string>* names,
               std::vector<std::string>* left_out);

/// The directories of inner paths, made where they are missing. What was made is gone
/// again unless it is kept. All throw Failure.
class Tree {
 public:
  explicit Tree(Place base) : base_(std::move(base)) {}
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree();

  /// Empty: the base.
  const Place& directory(const std::string& path);
  /// Gives the new directories permissions and times, by the entries that are directories. Call it when all
  /// is in them.
  void finish(const std::vector<FileEntry>& entries);
  /// Syncs the directories that were there before, which finish leaves alone.
  void sync() const;
  void keep() noexcept;

 private:
  Place base_;
  std::map<std::string, Place> open_;
  std::map<std::string, std::shared_ptr<Temporary>, std::greater<>> made_;  ///< inner directories go first
};

}  // namespace ec::file
