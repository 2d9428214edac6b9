// ec: files kept in k + m shards, of which any k give them back; see docs/ec.md and docs/format.md.
#include <sys/resource.h>
#include <sys/stat.h>

#include <boost/lexical_cast/try_lexical_convert.hpp>
#include <iostream>

#include "tools/common/command_line.hpp"
#include "tools/ec/commands.hpp"
#include "tools/ec/disk.hpp"

namespace {

namespace options = ec::tools::options;
using ec::tools::optional;
using namespace ec::file;

constexpr ec::tools::Command<Outcome(const Options&)> commands[] = {
    {"create", create, " data coding redundancy technique keep recursive output name threads "},
    {"verify", verify, " set recursive threads bad-sectors "},
    {"repair", repair, " set recursive threads bad-sectors "},
    {"extract", extract, " set recursive output force threads bad-sectors "},
    {"info", info, " set "},
    {"identify", identify, " skip "}};

constexpr const char* statuses =
    "Exit status: 0 whole or done, 1 failure of input or output, 2 wrong usage, 3 damaged and can be "
    "repaired\n"
    "(verify; identify: damaged), 4 beyond repair (identify: k cannot be told). Each thread takes (k+m) x 64 "
    "KiB of memory; with --keep all take at most 256 MiB of buffers.\n";

ec::Technique technique_of(const std::string& name) {
  for (const auto technique : {ec::Technique::cauchy, ec::Technique::reed_sol_van})
    if (name == name_of(technique)) return technique;
  fail(Status::usage, "--technique {} must be cauchy or reed_sol_van", name);
}

/// Of "10%" or "10".
double share_of(const std::string& text) {
  const std::string number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  double percent = 0;
  if (!boost::conversion::try_lexical_convert(number, percent) || !(percent > 0 && percent <= 12600))
    fail(Status::usage, "--redundancy {} must be a share as 10%, above 0 and at most 12600%",
         printable(text));
  return percent / 100;
}

/// What no option's type says.
void check(const Options& given, bool is_create) {
  if (given.is_recursive && !given.keeps_files && is_create)
    fail(Status::usage, "-r is for --keep; tar packs a tree into a stream");
  if (given.redundancy && !given.keeps_files)
    fail(Status::usage, "--redundancy is for --keep; shards have -k and -m");
  if (given.redundancy && given.m) fail(Status::usage, "--redundancy and -m say the same: give one of them");
  if (given.k.value_or(2) > 255 || given.m.value_or(1) > 255)
    fail(Status::usage, "-k {} and -m {}: k+m must be at most 255", given.k.value_or(2), given.m.value_or(1));
  if (given.threads > 1024) fail(Status::usage, "--threads {} must be at most 1024", given.threads);
}

/// Directories that are named stay open, and 1024 descriptors are what a shell allows, not what it must.
void allow_many_directories() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int argc, char** argv) {
  options::options_description description(
      "ec create FILE... | verify PATH... | repair PATH... | extract PATH... | info PATH... | identify "
      "FILE...\n"
      "FILE is a file, or - for standard input. PATH is a shard, or a directory that holds shards");
  Options given;
  const auto text = [](std::string* to) { return options::value<std::string>(to); };
  const auto yes = [](bool* to) { return options::bool_switch(to); };
  const auto parsed = [](auto* to, auto parse) {
    return options::value<std::string>()->notifier([=](const std::string& said) { *to = parse(said); });
  };
  auto add = description.add_options();
  add("data,k", optional(&given.k), "create: data shards (10; with --keep 200), at least 2");
  add("coding,m", optional(&given.m),
      "create: coding shards (4; with --keep 20), so many may be lost; k+m at most 255");
  add("redundancy", parsed(&given.redundancy, share_of),
      "create --keep: this share may be lost (10%), in the place of -m");
  add("technique", parsed(&given.technique, technique_of), "create: cauchy, which is usual, or reed_sol_van");
  add("keep", yes(&given.keeps_files),
      "create: coding shards alone; the files, where they are, take the place of the data shards");
  add("recursive,r", yes(&given.is_recursive),
      "create --keep: directories, with all that is in them; else: look for files that were moved there, "
      "too");
  add("output,o", text(&given.output),
      "create, extract: the directory (this one; with --keep the files' own); extract: or - for standard "
      "output");
  add("name", text(&given.name),
      "create: the name of what - gives (stream); with --keep the name of the set");
  add("set", text(&given.uuid), "the set, or how its UUID begins, where there are several");
  add("force", yes(&given.may_replace), "extract: replace files that are there");
  add("bad-sectors", yes(&given.loses_bad_sectors),
      "verify, repair, extract: what a disk cannot read is lost, and no error");
  add("threads", options::value(&given.threads)->default_value(0, "cores"), "how many");
  add("skip", optional(&given.skip),
      "identify: bytes before the coded ones in each file (0, or the 2 to 4 of zfec)");
  add("json", yes(&given.is_json), "say what was done or found as JSON");
  add("quiet,q", yes(&given.is_quiet), "say nothing but errors");
  const auto* const command = ec::tools::parse(argc, argv, description, &given.paths, commands,
                                               fmt::format("ec {}", ec::version()), statuses);
  if (command == nullptr) return 0;
  check(given, command->run == create);
  if (given.paths.empty()) fail(Status::usage, "{}: what is missing; see --help", command->name);
  const bool to_stdout = command->run == extract && given.output == "-";
  if (to_stdout && given.is_json) fail(Status::usage, "--json and --output - both write to standard output");
  if (given.loses_bad_sectors) take_bad_sectors_for_lost();
  note_interrupts();
  allow_many_directories();
  // What is made is opened again, now and by the next command.
  umask(umask(0) & ~mode_t{0700});
  const Outcome outcome = command->run(given);
  for (const auto& note : outcome.notes)
    if (!given.is_quiet) std::cerr << "ec: " << note << '\n';
  if (given.is_json)
    std::cout << outcome.report.dump(1) << '\n';
  else if (!to_stdout && !given.is_quiet)
    std::cout << outcome.text;
  ec::tools::flush_output();
  return static_cast<int>(outcome.status);
}

/// Where there is no memory to make the sentence printable, that is what is wrong.
void say(const std::exception& e) noexcept {
  try {
    std::cerr << "ec: " << printable(e.what()) << '\n';
  } catch (const std::bad_alloc&) {
    std::cerr << "ec: there is no memory\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  Status status = Status::failure;
  try {
    fill_standard_streams();
    return run(argc, argv);
  } catch (const Failure& e) {
    std::cerr << "ec: " << e.what() << '\n';
    status = e.status;
  } catch (const options::error& e) {
    say(e);
    status = Status::usage;
  } catch (const std::exception& e) {
    say(e);
  }
  return static_cast<int>(status);
}
