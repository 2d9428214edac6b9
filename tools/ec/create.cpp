// ec create: files, or a stream, to k + m shards.
#include <algorithm>
#include <filesystem>
#include <random>

#include "tools/ec/commands.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t usual_record_bytes = 65536;
/// Files of /proc say 0, those of /sys a page.
constexpr std::uint64_t most_bytes_of_a_lie = 4096;

/// What is coded: files one after the other, or standard input.
class Object {
 public:
  /// Files that lie about their length, as those of /proc, are copied to `place` first.
  Object(const Options& options, const Place& place) {
    is_stream_ = options.paths == std::vector<std::string>{"-"};
    if (is_stream_) {
      if (!is_file_name(options.name))
        fail(Status::usage, "--name {} must be the name of a file, of 1 to 255 bytes and without /",
             printable(options.name));
      if (options.keeps_files) fail(Status::usage, "--keep: there is no file to keep in a stream");
      entries_.push_back({options.name, 0});
      return;
    }
    for (const auto& path : options.paths) add(path, options.keeps_files, place);
  }

  bool is_stream() const { return is_stream_; }
  mode_t mode() const { return mode_; }
  const std::vector<FileEntry>& entries() const { return entries_; }

  /// The data of the stripe, with zeros behind its end; returns the bytes that there are. A stream is read
  /// in the order of the stripes.
  std::uint64_t read(const SetHeader& set, const Stripe& stripe) const {
    std::uint64_t got = 0;
    for (unsigned i = 0; i < set.k; ++i) {
      const auto block = stripe.block(i);
      const std::size_t part = is_stream_ ? read_stream(STDIN_FILENO, block)
                                          : read_files(block, stripe.number * set.stripe_bytes() + got);
      std::ranges::fill(block.subspan(part), std::byte{0});
      got += part;
    }
    return got;
  }

  /// Throws if a file is not as it was when it was opened.
  void check_unchanged() const {
    for (const auto& file : files_) file.check_unchanged();
  }

 private:
  void add(const std::string& path, bool is_kept, const Place& place) {
    if (path == "-") fail(Status::usage, "- is the only thing to code, or none");
    File file(nullptr, path);
    mode_ &= file.opened().st_mode;
    if (file.bytes() <= most_bytes_of_a_lie && has_other_length(file)) {
      if (is_kept) fail(Status::usage, "--keep: {} has no length that could be kept", printable(path));
      copies_.emplace_back(place, 0600);
      copy(file, &copies_.back());
      file = copies_.back().opened();
    }
    paths_.push_back(path);
    entries_.push_back({fs::path(path).filename(), file.bytes()});
    files_.push_back(std::move(file));
  }

  static bool has_other_length(const File& file) {
    std::vector<std::byte> bytes(file.bytes() + 1);
    return file.read_at(bytes, 0) != file.bytes();
  }

  static void copy(const File& from, NewFile* to) {
    std::vector<std::byte> bytes(usual_record_bytes);
    for (std::uint64_t offset = 0;;) {
      const std::size_t got = from.read_at(bytes, offset);
      to->write_at(std::span(bytes).first(got), offset);
      offset += got;
      if (got < bytes.size()) return;
    }
  }

  std::size_t read_files(std::span<std::byte> block, std::uint64_t offset) const {
    std::size_t got = 0;
    split_by_file(entries_, block, offset, [&](std::size_t i, std::span<std::byte> part, std::uint64_t at) {
      if (files_[i].read_at(part, at) != part.size())
        fail(Status::failure, "{} became shorter while it was read", printable(paths_[i]));
      got += part.size();
    });
    return got;
  }

  bool is_stream_ = false;
  mode_t mode_ = 0666;
  std::vector<File> files_;
  std::vector<std::string> paths_;
  std::vector<NewFile> copies_;
  std::vector<FileEntry> entries_;
};

Uuid random_uuid() {
  std::random_device random;
  Uuid uuid;
  for (auto& byte : uuid) byte = static_cast<std::uint8_t>(random());
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

/// Whether records of half the length would hold the object in one stripe.
bool has_room_in_half(SetHeader set) {
  set.record_bytes /= 2;
  return set.record_bytes >= least_record_bytes && set.record_bytes > set.sums_bytes() + checksum_bytes &&
         set.stripe_bytes() >= set.object_bytes;
}

/// The header but for the digests, and the length of a stream.
SetHeader header_of(const Object& object, const Options& options) {
  SetHeader set;
  set.uuid = random_uuid();
  set.k = options.k;
  set.m = options.m;
  set.technique = options.technique;
  set.keeps_files = options.keeps_files;
  set.record_bytes = usual_record_bytes;
  set.files = object.entries();
  set.digests.resize(set.shards());
  for (const auto& file : set.files) set.object_bytes += file.bytes;
  // One stripe of a small object is no larger than it must be.
  while (!object.is_stream() && has_room_in_half(set)) set.record_bytes /= 2;
  if (const std::string why = why_not(set); !why.empty()) fail(Status::usage, "{}", printable(why));
  return set;
}

}  // namespace

Outcome create(const Options& options) {
  const Codec codec = make_codec(options.k, options.m, options.technique);
  const Place place = Directory::open(options.output);
  const Object object(options, place);
  SetHeader set = header_of(object, options);
  const unsigned first = set.first_shard_file();
  std::vector<std::string> names;
  std::vector<NewFile> shards;
  for (unsigned i = first; i < set.shards(); ++i) {
    names.push_back(shard_name(set.files.front().name, i));
    if (place->look(names.back()))
      fail(Status::failure, "{} is there already; remove it, or choose another --output",
           printable(place->path_of(names.back())));
  }
  for (unsigned i = first; i < set.shards(); ++i) {
    shards.emplace_back(place, object.mode());
    if (!object.is_stream()) shards.back().reserve(set.shard_file_bytes());
  }

  Progress progress("create", set.object_bytes, !options.is_quiet);
  Pipeline pipeline(options.threads, progress);
  std::mutex mutex;
  std::uint64_t bytes = 0;
  const auto code = [&](const Stripe& stripe) {
    std::uint64_t got = 0;
    if (object.is_stream())
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
      if (i >= first) shards[i - first].write_at(stripe.record(i), set.record_at(stripe.number));
    }
    const std::lock_guard lock(mutex);
    bytes += got;
    for (unsigned i = 0; i < set.shards(); ++i) add_to(set.digests[i], stripe.checksum(i));
  };
  pipeline.run(set, object.is_stream() ? most_object_bytes / set.stripe_bytes() : set.stripes(), code);
  object.check_unchanged();
  if (object.is_stream()) set.object_bytes = set.files.front().bytes = bytes;

  for (unsigned i = first; i < set.shards(); ++i) {
    end_if_interrupted();
    write_headers(shards[i - first], set, i);
    shards[i - first].sync();
  }
  for (std::size_t i = 0; i < shards.size(); ++i) shards[i].put_at(names[i]);
  place->sync();
  for (auto& shard : shards) shard.keep();

  Outcome outcome;
  outcome.report = {{"set", text_of(set.uuid)},
                    {"k", set.k},
                    {"m", set.m},
                    {"bytes", set.object_bytes},
                    {"keeps_files", set.keeps_files},
                    {"shard_bytes", set.shard_file_bytes()}};
  for (const auto& name : names) outcome.report["shards"].push_back(printable(place->path_of(name)));
  outcome.text =
      fmt::format("{}\n{} shards of {} bytes, {} to {}\n", text_of(set), names.size(), set.shard_file_bytes(),
                  printable(place->path_of(names.front())), printable(names.back()));
  add_rate(progress, set.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
