// ec extract: the files, or the object as a stream, from k shards.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tools/ec/commands.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

/// The files of an object, written by parts of the object.
class OutputFiles {
 public:
  OutputFiles(const ShardSet& set, const Options& options) : directory_(options.output), set_(set) {
    for (const auto& entry : set.header.files)
      if (!options.may_replace && fs::exists(fs::symlink_status(directory_ / entry.name)))
        fail(Status::failure, "{} is there already; --force replaces it", printable(directory_ / entry.name));
    for (const auto& entry : set.header.files) {
      files_.emplace_back(directory_, set.mode);
      files_.back().reserve(entry.bytes);
    }
  }

  void write(std::span<const std::byte> part, std::uint64_t offset) {
    split_by_file(set_.header.files, part, offset,
                  [&](std::size_t i, auto bytes, std::uint64_t at) { files_[i].write_at(bytes, at); });
  }

  void put_in_place(bool may_replace) {
    for (auto& file : files_) {
      end_if_interrupted();
      file.sync();
    }
    for (std::size_t i = 0; i < files_.size(); ++i)
      files_[i].put_at(directory_ / set_.header.files[i].name, may_replace);
    sync_directory(directory_);
  }

 private:
  const fs::path directory_;
  const ShardSet& set_;
  std::vector<NewFile> files_;
};

}  // namespace

Outcome extract(const Options& options) {
  Outcome outcome;
  const ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  const SetHeader& header = set.header;
  StripeReader reader(set);
  std::optional<OutputFiles> files;
  if (options.output != "-") files.emplace(set, options);

  std::vector<unsigned> data(header.k);
  std::iota(data.begin(), data.end(), 0u);
  std::atomic<std::uint64_t> made_anew{0};
  Progress progress("extract", header.object_bytes, !options.is_quiet);
  Pipeline pipeline(options.threads, progress);
  pipeline.run(header, header.stripes(), [&](const Stripe& stripe) {
    const auto result = reader.load(stripe, data);
    if (result == StripeReader::Result::lost)
      fail(Status::lost, "beyond repair: stripe {} of {} has more than {} lost blocks", stripe.number,
           header.stripes(), header.m);
    if (result == StripeReader::Result::made_anew) ++made_anew;
    if (files)
      for_each_part(header, stripe, [&](auto part, std::uint64_t offset) { files->write(part, offset); });
    else
      pipeline.in_turn(stripe.number, [&] {
        for_each_part(header, stripe, [](auto part, std::uint64_t) { write_stream(STDOUT_FILENO, part); });
      });
  });
  for (const unsigned i : data)
    if (!reader.is_as_coded(i)) fail(Status::lost, "data of shard {} did not become what it was", i);
  if (files) files->put_in_place(options.may_replace);

  outcome.report = describe(set);
  outcome.report["stripes_made_anew"] = made_anew.load();
  outcome.text = text_of(set);
  if (made_anew > 0) {
    const auto note = fmt::format("{} of {} stripes had lost blocks, now made anew; ec repair mends the set",
                                  made_anew.load(), header.stripes());
    outcome.notes.push_back(note);
  }
  add_rate(progress, header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
