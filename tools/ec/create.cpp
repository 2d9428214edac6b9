// ec create: files, or a stream, to k + m shards.
#include <algorithm>
#include <bit>
#include <boost/uuid/random_generator.hpp>
#include <cmath>
#include <filesystem>

#include "tools/ec/columns.hpp"
#include "tools/ec/commands.hpp"
#include "tools/ec/tree.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t usual_record_bytes = 65536;
/// Files of /proc say that they have 0 bytes, files of /sys a page.
constexpr std::uint64_t most_bytes_of_a_lie = 4096;

void check_length(const File& file) {
  if (file.bytes() > most_bytes_of_a_lie) return;
  std::vector<std::byte> bytes(file.bytes() + 1);
  if (file.read_at(bytes, 0) != file.bytes())
    fail(Status::usage, "{} does not have the length that it says; a copy of it has", printable(file.path()));
}

/// Files and directories that are there, and what they are called in the set.
struct Inputs {
  mode_t mode = 0666;  ///< what all files allow
  std::vector<FileEntry> entries;
  std::vector<std::optional<File>> files;  ///< none of a directory

  /// Without a place `path` leads to a file, by links too.
  void add(const Place& place, const std::string& path, const std::string& name) {
    const auto there = place ? place->look(path) : std::nullopt;
    FileEntry& entry = entries.emplace_back();
    entry.name = name;
    entry.is_directory = there && S_ISDIR(there->st_mode);
    auto& file = files.emplace_back();
    if (!entry.is_directory) {
      file = File(place, path);
      check_length(*file);
      entry.bytes = file->bytes();
      mode &= file->opened().st_mode;
    }
    const auto& st = file ? file->opened() : *there;
    entry.mode = static_cast<std::uint16_t>(st.st_mode & 07777);
    entry.seconds = st.st_mtim.tv_sec;
    entry.nanoseconds = static_cast<std::uint32_t>(st.st_mtim.tv_nsec);
  }

  /// Throws Failure if a file is not as it was when it was opened.
  void check_unchanged() const {
    for (const auto& file : files)
      if (file) file->check_unchanged();
  }
};

/// What is coded: files one after the other, or standard input.
struct Object : Inputs {
  explicit Object(const Options& options) : is_stream(options.paths == std::vector<std::string>{"-"}) {
    if (is_stream) entries.emplace_back().name = options.name.empty() ? "stream" : options.name;
    for (const auto& path : options.paths) {
      if (path == "-" && !is_stream) fail(Status::usage, "- is the only thing to code, or none");
      if (!is_stream) add(nullptr, path, fs::path(path).filename());
    }
  }

  /// The data of the stripe, with zeros behind its end; returns the bytes that there are. A stream is read
  /// in the order of the stripes.
  std::uint64_t read(const SetHeader& set, const Stripe& stripe) const {
    std::uint64_t got = 0;
    for (unsigned i = 0; i < set.k; ++i) {
      const auto block = stripe.block(i);
      const std::size_t part =
          is_stream ? read_stream(block) : read_files(block, stripe.number * set.stripe_bytes() + got);
      std::ranges::fill(block.subspan(part), std::byte{0});
      got += part;
    }
    return got;
  }

  const bool is_stream;

 private:
  std::size_t read_files(std::span<std::byte> block, std::uint64_t offset) const {
    std::size_t got = 0;
    split_by_file(entries, block, offset, [&](std::size_t i, std::span<std::byte> part, std::uint64_t at) {
      if (files[i]->read_at(part, at) != part.size())
        fail(Status::failure, "{} became shorter while it was read", printable(files[i]->path()));
      got += part.size();
    });
    return got;
  }
};

SetHeader new_set(const std::vector<FileEntry>& files, const Options& options) {
  SetHeader set;
  set.uuid = boost::uuids::random_generator()();
  set.technique = options.technique;
  set.files = files;
  for (const auto& file : files) set.object_bytes += file.bytes;
  return set;
}

/// The header but for the digests, and the length of a stream.
SetHeader header_of(const Object& object, const Options& options) {
  SetHeader set = new_set(object.entries, options);
  set.k = options.k.value_or(10);
  set.m = options.m.value_or(4);
  set.digests.resize(set.shards());
  // One stripe of a small object is no larger than it must be.
  const std::uint64_t record =
      object.is_stream ? usual_record_bytes : (set.object_bytes + set.k - 1) / set.k + checksum_bytes;
  set.record_bytes = std::bit_ceil(
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(record, least_record_bytes, usual_record_bytes)));
  return set;
}

/// The shards of a new set, of which nothing is left unless they are finished.
class NewShards {
 public:
  NewShards(const Place& place, const SetHeader& set, mode_t mode, bool is_length_known) : place_(place) {
    if (const std::string why = why_not(set); !why.empty()) fail(Status::usage, "{}", printable(why));
    for (unsigned i = set.first_shard_file(); i < set.shards(); ++i) {
      names_.push_back(shard_name(set.name(), i));
      if (place->look(names_.back()))
        fail(Status::failure, "{} is there already; remove it, or choose another --output",
             printable(place->path_of(names_.back())));
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      files_.emplace_back(place, mode);
      if (is_length_known) files_.back().reserve(set.shard_file_bytes());
    }
  }

  NewFile& operator[](unsigned i) { return files_[i]; }

  void finish(const SetHeader& set, bool is_json, Outcome* outcome) {
    for (unsigned i = set.first_shard_file(); i < set.shards(); ++i) {
      end_if_interrupted();
      auto& file = files_[i - set.first_shard_file()];
      write_headers(file, set, i);
      file.sync();
    }
    for (std::size_t i = 0; i < files_.size(); ++i) files_[i].put(names_[i]);
    place_->sync();
    for (auto& file : files_) file.keep();

    if (is_json) {
      outcome->report = {{"set", to_string(set.uuid)},
                         {"k", set.k},
                         {"m", set.m},
                         {"bytes", set.object_bytes},
                         {"keeps_files", set.keeps_files},
                         {"shard_bytes", set.shard_file_bytes()},
                         {"shards", nlohmann::json::array()}};
      for (const auto& name : names_) outcome->report["shards"].push_back(printable(place_->path_of(name)));
    }
    outcome->text = fmt::format("{}\n{} shards of {} bytes, {} to {}\n", text_of(set), names_.size(),
                                set.shard_file_bytes(), printable(place_->path_of(names_.front())),
                                printable(names_.back()));
    add_rate(set.object_bytes, outcome);
  }

 private:
  const Place place_;
  std::vector<std::string> names_;
  std::vector<NewFile> files_;
};

// --- Kept files.

/// What is named, and what is in it, by names relative to the deepest directory that holds all of it.
struct KeptFiles : Inputs {
  explicit KeptFiles(const Options& options, Outcome* outcome) {
    std::vector<std::pair<fs::path, bool>> given;  // and whether it is a directory
    fs::path common;
    for (const auto& path : options.paths) {
      if (path == "-") fail(Status::usage, "--keep: there is no file to keep in a stream");
      std::error_code error;
      const bool is_directory = fs::is_directory(path, error);
      if (is_directory && !options.is_recursive)
        fail(Status::usage, "{} is a directory; -r takes all that is in it", printable(path));
      const fs::path parent = fs::path(path).parent_path();
      auto whole = fs::canonical(is_directory ? fs::path(path) : parent.empty() ? "." : parent, error);
      if (error) fail(Status::failure, "{} cannot be opened: {}", printable(path), error.message());
      common = given.empty() ? whole : common_of(common, whole);
      given.emplace_back(is_directory ? whole : whole / fs::path(path).filename(), is_directory);
    }
    base = Directory::open(common);
    std::vector<std::string> names, left_out;
    for (const auto& [path, is_directory] : given) {
      const std::string name = path == common ? "" : path.lexically_relative(common).string();
      if (!name.empty()) names.push_back(name);
      if (is_directory) list_tree(base, name, true, &names, &left_out);
    }
    const std::size_t more = left_out.size() > 4 ? left_out.size() - 4 : 0;
    left_out.resize(left_out.size() - more);
    if (!left_out.empty())
      outcome->notes.push_back(fmt::format("left out, as it is a link, no file, or of a set: {}{}",
                                           printable(fmt::format("{}", fmt::join(left_out, " "))),
                                           more > 0 ? fmt::format(" and {} more", more) : ""));
    if (names.empty()) fail(Status::usage, "{} is empty", printable(options.paths.front()));
    set_name = !options.name.empty() ? options.name
               : given.size() == 1   ? given.front().first.filename().string()
                                     : last_name(names.front());
    for (const auto& name : names) add(base, name, name);
  }

  Place base;
  std::string set_name;

 private:
  static fs::path common_of(const fs::path& a, const fs::path& b) {
    fs::path common;
    for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end() && *i == *j; ++i, ++j) common /= *i;
    return common;
  }
};

/// Slices many and blocks small enough that a lost file costs each column few blocks (docs/format.md).
SetHeader header_of(const KeptFiles& files, const Options& options) {
  SetHeader set = new_set(files.entries, options);
  set.version = 2;
  set.keeps_files = true;
  set.set_name = files.set_name;
  const auto coding = [&](unsigned k) {
    return options.m.value_or(
        std::max(1u, static_cast<unsigned>(std::ceil(k * options.redundancy.value_or(0.1) - 1e-9))));
  };
  set.k = options.k.value_or(200);
  while (!options.k && set.k > 2 && set.k + coding(set.k) > 255) --set.k;
  const auto block = static_cast<std::uint32_t>(std::bit_floor(std::clamp<std::uint64_t>(
      set.object_bytes / (4 * std::max(1u, set.k)), least_block_bytes_2, most_block_bytes_2)));
  const Layout layout(set.files, block);
  if (!options.k) set.k = static_cast<unsigned>(std::clamp<std::uint64_t>(layout.blocks(), 2, set.k));
  set.m = coding(set.k);
  set.record_bytes = static_cast<std::uint32_t>(block + set.sums_bytes() + checksum_bytes);
  set.columns = columns_of(layout, std::max(1u, set.k));
  set.digests.resize(set.m);
  return set;
}

Outcome create_kept(const Options& options) {
  Outcome outcome;
  const KeptFiles files(options, &outcome);
  ShardSet set;
  set.header = header_of(files, options);
  SetHeader& header = set.header;
  set.shards.resize(header.shards());
  set.kept = std::vector<ShardFile>(header.files.size());
  for (std::size_t i = 0; i < set.kept.size(); ++i) {
    set.kept[i].place = files.base;
    set.kept[i].name = header.files[i].name;
    set.kept[i].file = files.files[i];
  }
  Columns columns(set, options.threads, true);
  NewShards shards(options.output.empty() ? files.base : Directory::open(options.output), header, files.mode,
                   true);
  OutputPlan plan(header);
  for (unsigned i = 0; i < header.m; ++i) plan.shards[header.k + i] = &shards[i];
  for (std::size_t i = 0; i < header.files.size(); ++i) columns.want(&plan, i, nullptr);
  columns.read(&plan, !options.is_quiet, "create");
  files.check_unchanged();
  for (std::size_t i = 0; i < header.files.size(); ++i)
    if (!header.files[i].is_directory) header.files[i].digest = columns.digest_of(plan, i);
  for (unsigned i = 0; i < header.m; ++i) header.digests[i] = columns.digest_of(header.k + i);
  shards.finish(header, options.is_json, &outcome);
  return outcome;
}

}  // namespace

Outcome create(const Options& options) {
  if (!options.name.empty() && !is_file_name(options.name))
    fail(Status::usage, "--name {} must be the name of a file, of 1 to 255 bytes and without /",
         printable(options.name));
  if (options.keeps_files) return create_kept(options);
  Outcome outcome;
  const Codec codec = make_codec(options.k.value_or(10), options.m.value_or(4), options.technique);
  const Place place = Directory::open(options.output.empty() ? "." : options.output);
  const Object object(options);
  SetHeader set = header_of(object, options);
  NewShards shards(place, set, object.mode, !object.is_stream);
  Pipeline pipeline(options.threads, "create", set.object_bytes, !options.is_quiet);
  std::mutex mutex;
  std::uint64_t bytes = 0;
  const auto code = [&](const Stripe& stripe) {
    std::uint64_t got = 0;
    if (object.is_stream)
      pipeline.in_turn(stripe.number, [&] { got = object.read(set, stripe); });
    else
      got = object.read(set, stripe);
    if (got < set.stripe_bytes()) pipeline.end_at(stripe.number + 1);
    if (got == 0) return;
    std::vector<Source> data;
    std::vector<Target> coding;
    for (unsigned i = 0; i < set.k; ++i) data.emplace_back(stripe.block(i));
    for (unsigned i = set.k; i < set.shards(); ++i) coding.emplace_back(stripe.block(i));
    check(codec.encode(data, coding));
    for (unsigned i = 0; i < set.shards(); ++i) {
      stripe.seal(i);
      shards[i].write_at(stripe.record(i), set.record_at(stripe.number));
    }
    const std::lock_guard lock(mutex);
    bytes += got;
    for (unsigned i = 0; i < set.shards(); ++i) add_to(set.digests[i], stripe.checksum(i));
  };
  pipeline.run(set, object.is_stream ? most_object_bytes / set.stripe_bytes() : set.stripes(), code);
  object.check_unchanged();
  if (object.is_stream) set.object_bytes = set.files.front().bytes = bytes;
  shards.finish(set, options.is_json, &outcome);
  return outcome;
}

}  // namespace ec::file
