// ec extract: the files, or the object as a stream, from k shards.
#include <algorithm>
#include <numeric>

#include "tools/ec/commands.hpp"

namespace ec::file {
namespace {

/// The files of an object, written by parts of the object. No room is taken for them: what a header says
/// about their length is not proven, and they may have holes.
class OutputFiles {
 public:
  OutputFiles(const ShardSet& set, const Options& options)
      : place_(Directory::open(options.output)), set_(set) {
    for (const auto& entry : set.header.files) {
      there_.push_back(place_->look(entry.name));
      if (there_.back() && !options.may_replace)
        fail(Status::failure, "{} is there already; --force replaces it",
             printable(place_->path_of(entry.name)));
      if (there_.back() && S_ISDIR(there_.back()->st_mode))
        fail(Status::failure, "{} is a directory", printable(place_->path_of(entry.name)));
    }
    for (std::size_t i = 0; i < there_.size(); ++i) files_.emplace_back(place_, set.mode);
  }

  void write(std::span<const std::byte> part, std::uint64_t offset) {
    split_by_file(set_.header.files, part, offset, [&](std::size_t i, auto bytes, std::uint64_t at) {
      // A hole is left a hole.
      if (std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{0}; }))
        files_[i].write_at(bytes, at);
    });
  }

  void put_in_place(Outcome* outcome) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      end_if_interrupted();
      files_[i].sync(set_.header.files[i].bytes);
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const std::string& name = set_.header.files[i].name;
      if (there_[i])
        files_[i].put_over(name, *there_[i]);
      else
        files_[i].put_at(name);
    }
    place_->sync();
    for (auto& file : files_) file.keep();
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (!there_[i]) say_if_hidden(set_.header.files[i].name, outcome);
  }

 private:
  const Place place_;
  const ShardSet& set_;
  std::vector<std::optional<struct stat>> there_;
  std::vector<NewFile> files_;
};

}  // namespace

Outcome extract(const Options& options) {
  Outcome outcome;
  const ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  const SetHeader& header = set.header;
  StripeReader reader(set);
  if (const auto there = set.stripes_there(); there < header.stripes())
    fail(Status::lost, "beyond repair: of stripe {} of {} more than {} blocks are beyond the ends of files",
         there, header.stripes(), header.m);
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
  if (files) files->put_in_place(&outcome);

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
