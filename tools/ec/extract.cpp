// ec extract: the files, or the object as a stream, from k shards.
#include <algorithm>
#include <numeric>

#include "tools/ec/columns.hpp"
#include "tools/ec/commands.hpp"
#include "tools/ec/search.hpp"
#include "tools/ec/tree.hpp"

namespace ec::file {
namespace {

/// The files of an object, written by parts of the object. No room is taken for them: what a header says
/// about their length is not proven, and they may have holes.
class OutputFiles {
 public:
  OutputFiles(const ShardSet& set, const Options& options)
      : place_(Directory::open(options.output.empty() ? "." : options.output)), tree_(place_), set_(set) {
    for (const auto& entry : set.header.files) {
      there_.push_back(place_->look(entry.name));
      if (!there_.back()) continue;
      const std::string path = printable(place_->path_of(entry.name));
      if (S_ISDIR(there_.back()->st_mode) != entry.is_directory)
        fail(Status::failure, "{} is {} directory", path, entry.is_directory ? "not a" : "a");
      if (!options.may_replace && !entry.is_directory)
        fail(Status::failure, "{} is there already; --force replaces it", path);
    }
    for (const auto& entry : set.header.files) {
      if (entry.is_directory)
        tree_.directory(entry.name), files_.emplace_back();
      else
        files_.emplace_back(NewFile(tree_.directory(parent_of(entry.name)), set.mode));
    }
  }

  /// None of a directory.
  NewFile* operator[](std::size_t i) { return files_[i] ? &*files_[i] : nullptr; }

  void write(std::span<const std::byte> part, std::uint64_t offset) {
    split_by_file(set_.header.files, part, offset,
                  [&](std::size_t i, auto bytes, std::uint64_t at) { files_[i]->write_at(bytes, at); });
  }

  void put_in_place(Outcome* outcome) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      end_if_interrupted();
      const FileEntry& entry = set_.header.files[i];
      if (!files_[i]) continue;
      const Attributes attributes = attributes_of(entry);
      files_[i]->sync(entry.bytes, nullptr, set_.header.version == 1 ? nullptr : &attributes);
    }
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (files_[i]) files_[i]->put(last_name(set_.header.files[i].name), there_[i]);
    tree_.finish(set_.header.files);
    tree_.sync();
    for (auto& file : files_)
      if (file) file->keep();
    tree_.keep();
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (!there_[i]) say_if_hidden(last_name(set_.header.files[i].name), outcome);
  }

 private:
  const Place place_;
  Tree tree_;
  const ShardSet& set_;
  std::vector<std::optional<struct stat>> there_;
  std::vector<std::optional<NewFile>> files_;
};

void extract_by_columns(ShardSet& set, const Options& options, Outcome* outcome) {
  const SetHeader& header = set.header;
  if (options.output == "-")
    fail(Status::usage,
         "-o -: kept files are right when all are read, and a stream takes none back; name a directory");
  Columns columns(set, options.threads);
  OutputPlan plan(header);
  std::optional<OutputFiles> files;
  Search search(&set, columns, options.is_recursive);
  std::uint64_t lost = header.columns - columns.columns_there();
  if (lost == 0) {
    do {
      files.emplace(set, options);  // zeros are not written, so nothing of another reading may be there
      for (std::size_t i = 0; i < header.files.size(); ++i)
        if (!header.files[i].is_directory) columns.want(&plan, i, (*files)[i]);
      lost = columns.read(&plan, !options.is_quiet, "extract");
    } while (lost > 0 && search.find_content());
  }
  if (lost > 0) fail(Status::lost, "{}", text_of_lost(header, lost));
  for (std::size_t i = 0; i < header.files.size(); ++i)
    if (plan.files[i].is_wanted && columns.digest_of(plan, i) != header.files[i].digest)
      fail(Status::lost, "beyond repair: {} did not become what it was", printable(header.files[i].name));
  files->put_in_place(outcome);
  describe(set, options, outcome);
  if (!std::ranges::all_of(set.kept, &ShardFile::is_whole))
    outcome->notes.push_back(fmt::format("files of the set are damaged or missing; {}", set.remedy()));
  add_rate(header.object_bytes, outcome);
}

}  // namespace

Outcome extract(const Options& options) {
  Outcome outcome;
  ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  const SetHeader& header = set.header;
  if (header.version != 1) {
    extract_by_columns(set, options, &outcome);
    return outcome;
  }
  StripeReader reader(set);
  if (const auto there = set.stripes_there(); there < header.stripes())
    fail(Status::lost, "beyond repair: of stripe {} of {} more than {} blocks are beyond the ends of files",
         there, header.stripes(), header.m);
  std::optional<OutputFiles> files;
  if (options.output != "-") files.emplace(set, options);

  std::vector<unsigned> data(header.k);
  std::iota(data.begin(), data.end(), 0u);
  std::atomic<std::uint64_t> made_anew{0};
  Pipeline pipeline(options.threads, "extract", header.object_bytes, !options.is_quiet);
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
        for_each_part(header, stripe, [](auto part, std::uint64_t) { write_stream(part); });
      });
  });
  for (const unsigned i : data)
    if (!reader.is_as_coded(i)) fail(Status::lost, "data of shard {} did not become what it was", i);
  if (files) files->put_in_place(&outcome);

  describe(set, options, &outcome);
  if (options.is_json) outcome.report["stripes_made_anew"] = made_anew.load();
  if (made_anew > 0) {
    const auto note = fmt::format("{} of {} stripes had lost blocks, now made anew; ec repair mends the set",
                                  made_anew.load(), header.stripes());
    outcome.notes.push_back(note);
  }
  add_rate(header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
