// ec: files kept in k + m shards, of which any k give them back; see docs/ec.md and docs/format.md.
#include <sys/resource.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>

#include "tools/ec/commands.hpp"
#include "tools/ec/disk.hpp"

namespace {

namespace options = boost::program_options;
using namespace ec::file;
using Words = std::vector<std::string>;
using Given = options::variables_map;

struct Command {
  std::string_view name;
  Outcome (*run)(const Options&);
  std::string_view options;
};
constexpr Command commands[] = {
    {"create", create, " data coding redundancy technique keep recursive output name threads "},
    {"identify", identify, " skip "},
    {"info", info, " set "},
    {"verify", verify, " set recursive threads bad-sectors "},
    {"repair", repair, " set recursive threads bad-sectors "},
    {"extract", extract, " set recursive output force threads bad-sectors "}};
constexpr const char* names = "create, verify, repair, extract, info or identify";

constexpr const char* statuses =
    "Exit status: 0 whole or done, 1 failure of input or output, 2 wrong usage, 3 damaged and can be "
    "repaired\n"
    "(verify; identify: damaged), 4 beyond repair (identify: k cannot be told). Each thread takes (k+m) x 64 "
    "KiB of memory; with --keep all take at most 256 "
    "MiB.\n";

ec::Technique technique_of(const std::string& name) {
  for (const auto technique : {ec::Technique::cauchy, ec::Technique::reed_sol_van})
    if (name == name_of(technique)) return technique;
  fail(Status::usage, "--technique {} must be cauchy or reed_sol_van", name);
}

/// Of "10%" or "10".
double share_of(const std::string& text) {
  std::size_t end = 0;
  double percent = 0;
  try {
    percent = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == 0 || (text.substr(end) != "" && text.substr(end) != "%") || !(percent > 0 && percent <= 12600))
    fail(Status::usage, "--redundancy {} must be a share as 10%, above 0 and at most 12600%",
         printable(text));
  return percent / 100;
}

Options options_of(const Given& given) {
  Options all;
  if (given.contains("words")) all.paths = given["words"].as<Words>();
  if (given.contains("data")) all.k = given["data"].as<unsigned>();
  if (given.contains("coding")) all.m = given["coding"].as<unsigned>();
  all.technique = technique_of(given["technique"].as<std::string>());
  if (given.contains("output")) all.output = given["output"].as<std::string>();
  if (given.contains("name")) all.name = given["name"].as<std::string>();
  all.uuid = given["set"].as<std::string>();
  if (given.contains("skip")) all.skip = given["skip"].as<std::uint64_t>();
  all.threads = given["threads"].as<unsigned>();
  all.may_replace = given.contains("force");
  all.keeps_files = given.contains("keep");
  all.is_recursive = given.contains("recursive");
  if (all.is_recursive && !all.keeps_files && given["command"].as<std::string>() == "create")
    fail(Status::usage, "-r is for --keep; tar packs a tree into a stream");
  if (given.contains("redundancy")) {
    if (!all.keeps_files) fail(Status::usage, "--redundancy is for --keep; shards have -k and -m");
    if (all.m) fail(Status::usage, "--redundancy and -m say the same: give one of them");
    all.redundancy = share_of(given["redundancy"].as<std::string>());
  }
  all.is_quiet = given.contains("quiet");
  all.is_json = given.contains("json");
  if (all.threads > 1024) fail(Status::usage, "--threads {} must be at most 1024", all.threads);
  return all;
}

const Command& command_of(const Given& given) {
  if (!given.contains("command")) fail(Status::usage, "a command is missing: {}; see --help", names);
  const auto& name = given["command"].as<std::string>();
  const Command* command = std::ranges::find(commands, name, &Command::name);
  if (command == std::end(commands)) fail(Status::usage, "unknown command {}: {}", printable(name), names);
  for (const char* option : {"data", "coding", "redundancy", "technique", "keep", "recursive", "output",
                             "name", "set", "threads", "force", "bad-sectors", "skip"})
    if (given.contains(option) && !given[option].defaulted() &&
        command->options.find(fmt::format(" {} ", option)) == std::string_view::npos)
      fail(Status::usage, "{} takes no --{}", name, option);
  return *command;
}

/// 1024 descriptors are what a shell allows, and not what it must.
void allow_many_files() {
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
  auto add = description.add_options();
  add("help,h", "this text");
  add("version", "the version");
  add("data,k", options::value<unsigned>(), "create: data shards (10; with --keep 200), at least 2");
  add("coding,m", options::value<unsigned>(),
      "create: coding shards (4; with --keep 20), so many may be lost; k+m at most 255");
  add("redundancy", options::value<std::string>(),
      "create --keep: this share may be lost (10%), in the place of -m");
  add("technique", options::value<std::string>()->default_value("cauchy"), "create: or reed_sol_van");
  add("keep", "create: coding shards alone; the files, where they are, take the place of the data shards");
  add("recursive,r",
      "create --keep: directories, with all that is in them; else: look for files that were moved there, "
      "too");
  add("output,o", options::value<std::string>(),
      "create, extract: the directory (this one; with --keep that of the files); extract: or - for standard "
      "output");
  add("name", options::value<std::string>(),
      "create: the name of what - gives (stream); with --keep that of the set");
  add("set", options::value<std::string>()->default_value(""),
      "the set, or how its UUID begins, where there are several");
  add("force", "extract: replace files that are there");
  add("bad-sectors", "verify, repair, extract: what a disk cannot read is lost, and no error");
  add("threads", options::value<unsigned>()->default_value(0, "cores"), "how many");
  add("skip", options::value<std::uint64_t>(),
      "identify: bytes before the coded ones in each file (0, or the 2 to 4 of zfec)");
  add("json", "say what was done or found as JSON");
  add("quiet,q", "say nothing but errors");
  options::options_description all;
  all.add(description)
      .add_options()("command", options::value<std::string>(), "")("words", options::value<Words>(), "");
  options::positional_options_description positional;
  positional.add("command", 1).add("words", -1);
  Given given;
  options::store(options::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.contains("help")) {
    std::cout << description << '\n' << statuses;
    return 0;
  }
  if (given.contains("version")) {
    std::cout << "ec " << ec::version() << '\n';
    return 0;
  }
  const Command& command = command_of(given);
  const Options wanted = options_of(given);
  if (wanted.paths.empty()) fail(Status::usage, "{}: what is missing; see --help", command.name);
  const bool to_stdout = command.run == extract && wanted.output == "-";
  if (to_stdout && wanted.is_json) fail(Status::usage, "--json and --output - both write to standard output");
  if (given.contains("bad-sectors")) take_bad_sectors_for_lost();
  note_interrupts();
  allow_many_files();
  const Outcome outcome = command.run(wanted);
  for (const auto& note : outcome.notes)
    if (!wanted.is_quiet) std::cerr << "ec: " << note << '\n';
  if (wanted.is_json)
    std::cout << outcome.report.dump(1) << '\n';
  else if (!to_stdout && !wanted.is_quiet)
    std::cout << outcome.text;
  if (!std::cout.flush()) fail(Status::failure, "standard output cannot be written");
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
