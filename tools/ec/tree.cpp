#include "tools/ec/tree.hpp"

#include <span>

#include "tools/ec/failure.hpp"

namespace ec::file {
namespace {

bool is_shard(const Place& place, const std::string& name) {
  std::string front(header_unit, '\0');
  const auto file = name.ends_with(".ec") ? File::find(place, name) : std::nullopt;
  if (file) front.resize(file->read_at(std::as_writable_bytes(std::span(front)), 0));
  return file && claimed_header_bytes(front) != 0;
}

}  // namespace

Attributes attributes_of(const FileEntry& entry) { return {entry.mode, {entry.seconds, entry.nanoseconds}}; }

bool is_unchanged(const struct stat& there, const FileEntry& entry) {
  return there.st_mtim.tv_sec == entry.seconds && there.st_mtim.tv_nsec == entry.nanoseconds;
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

void list_tree(const Place& base, const std::string& path, bool is_recursive, std::vector<std::string>* names,
               std::vector<std::string>* left_out) {
  const Place place = Directory::open_in(base, path);
  for (const auto& name : place->names()) {
    end_if_interrupted();
    const auto inner = path.empty() ? name : path + "/" + name;
    const auto there = place->look(name);
    if (!there) continue;  // gone again
    const bool is_directory = S_ISDIR(there->st_mode);
    if (is_temporary(name) || !is_inner_path(inner) ||
        !(is_directory || (S_ISREG(there->st_mode) && !is_shard(place, name)))) {
      left_out->push_back(place->path_of(name));
      continue;
    }
    names->push_back(inner);
    if (is_directory && is_recursive) list_tree(base, inner, true, names, left_out);
  }
}

Tree::~Tree() {
  while (!made_.empty()) made_.erase(made_.begin());
}

const Place& Tree::directory(const std::string& path) {
  if (path.empty()) return base_;
  auto& place = open_[path];
  if (place) return place;
  if (!base_->look(path)) {
    const Place parent = directory(parent_of(path));
    made_.emplace(path, make_directory(parent, last_name(path)));
  }
  return place = Directory::open_in(base_, path);
}

void Tree::finish(const std::vector<FileEntry>& entries) {
  std::map<std::string, Attributes> known;
  for (const auto& entry : entries)
    if (entry.is_directory) known.emplace(entry.name, attributes_of(entry));
  for (const auto& [path, made] : made_)
    make_as(*open_.at(path), known.try_emplace(path, Attributes{0755, {0, UTIME_NOW}}).first->second);
}

void Tree::sync() const {
  for (const auto& [path, place] : open_)
    if (!made_.contains(path)) place->sync();
  base_->sync();
}

void Tree::keep() noexcept {
  for (auto& [path, made] : made_) file::keep(&made);
}

}  // namespace ec::file
