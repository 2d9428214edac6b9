// `ec_bench files`: ec with 10 + 4, and with 10 % beside 20 files that it keeps, beside other commands that
// make redundant files, in turn, on random bytes; memory is warm.
#include <fmt/format.h>

#include <boost/algorithm/string/replace.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"

namespace ec::bench {
namespace {

namespace fs = std::filesystem;

/// A command of the shell that is timed, in the current folder; the others are not.
struct Command {
  std::string name;
  std::string before;
  std::string text;
  std::string check = "true";  ///< fails if the bytes are wrong
};

volatile std::sig_atomic_t interrupted = 0;

void execute(const std::string& text) {
  // By a pipe, not by a file: the disk may be full.
  std::FILE* const pipe = popen(fmt::format("({}) 2>&1", text).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error(fmt::format("{}: {}", text, std::strerror(errno)));
  std::string output;
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  const bool failed = pclose(pipe) != 0;
  if (interrupted != 0) throw std::runtime_error("interrupted");
  if (failed) throw std::runtime_error(fmt::format("{}: {}", text, output));
}

std::vector<Command> commands_of(const std::vector<std::string>& others) {
  const std::string path = fs::read_symlink("/proc/self/exe").parent_path() / "ec";
  const std::string ec = "'" + boost::replace_all_copy(path, "'", "'\\''") + "'";
  const std::string fresh = "mkdir set out";
  const std::string create = ec + " create object -o set", extract = ec + " extract set -o out";
  const std::string made = fresh + " && " + create, same = "cmp object out/object";
  const std::string split =
      "mkdir -p kept; rm -f kept/*.ec; ls kept/part05 || split -d -n 20 object kept/part";
  const std::string keep = ec + " create --keep --redundancy 10% kept/part*", kept = split + " && " + keep;
  const std::string repair_kept = ec + " repair kept", same_kept = "cat kept/part?? | cmp object";
  const std::string lost = made + " && rm set/object.00[047].ec set/object.012.ec";
  // Extract needs all shards that are left, those that were lost and the coding ones among them.
  const std::string extracted = "rm set/object.00[1235].ec && " + extract + " && " + same;
  const std::string damage = "dd if=/dev/zero bs=1 seek=9999 count=64 conv=notrunc of=";
  std::vector<Command> all{
      {"ec-create", fresh, create, extracted},
      {"ec-verify", made, ec + " verify set", damage + "set/object.000.ec && ! " + ec + " verify set"},
      {"ec-extract", made, extract, same},
      {"ec-extract-4-lost", lost, extract, same},
      {"ec-repair-4-lost", lost, ec + " repair set", extracted},
      {"ec-keep-create", split, keep, "rm kept/part05 && " + repair_kept + " && " + same_kept},
      {"ec-keep-verify", kept, ec + " verify kept",
       damage + "kept/part00 && ! " + ec + " verify kept && " + repair_kept + " && " + same_kept},
      {"ec-keep-repair", kept + " && rm kept/part05", repair_kept, same_kept}};
  for (const auto& text : others) {
    const std::size_t equals = text.find('='), timed = text.find(" :: ");
    if (equals > timed || timed == std::string::npos)
      throw UsageError(fmt::format("--beside {}: must be NAME=BEFORE :: COMMAND", text));
    all.push_back(
        {text.substr(0, equals), text.substr(equals + 1, timed - equals - 1), text.substr(timed + 4)});
  }
  return all;
}

int measure_files(const CommandLine& line) {
  const std::size_t bytes = line.number("size", mib, 1024 * gib);
  const Pace pace{.rounds = line.number("rounds", 1, most_rounds)};
  const auto commands = commands_of(line.list("beside"));
  std::string folder = fs::absolute(line.text("folder")) / "ec_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    throw std::runtime_error(fmt::format("{}: {}", folder, std::strerror(errno)));
  const std::shared_ptr<void> removed(nullptr, [&](void*) { fs::remove_all(folder); });
  // nohup ignores SIGHUP.
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM})
    if (std::signal(signal, [](int) { interrupted = 1; }) == SIG_IGN) std::signal(signal, SIG_IGN);
  Report report(line);
  fs::current_path(folder);
  execute(fmt::format("head -c {} /dev/urandom >object", bytes));
  std::vector<Contestant> contestants;
  for (const Command& command : commands) {
    const auto prepare = [&, bytes] {
      // A virtual machine gives back what is free, and takes long to get it again: that is no command's time.
      execute(fmt::format("rm -rf set out && head -c {} /dev/zero >warm && rm warm", 3 * bytes / 2));
      execute(command.before);
    };
    const auto right = [&](std::size_t) {
      execute(command.check);
      return true;
    };
    contestants.push_back({.name = command.name,
                           .prepare = prepare,
                           .run = [&](std::size_t) { execute(command.text); },
                           .spoil = [prepare](std::size_t) { prepare(); },
                           .right = right});
  }
  Workers workers(1);
  const auto results = measure(workers, contestants, {}, pace);
  const Figures figures(contestants, results), cpu(contestants, results, true);
  for (std::size_t i = 0; i < results.size(); ++i)
    report.add({{"coder", commands[i].name},
                {"bytes", bytes},
                {"gbps", figures.per_second(i, 1e-9 * static_cast<double>(bytes))},
                {"cpu_seconds", cpu.call_seconds(i)},
                {"ratio", figures.times(i, 0)},
                {"noise", figures.noise_percent(i)}});
  return report.finish();
}

}  // namespace

Subcommand files() {
  return {"files",
          {{"beside", "",
            "NAME=BEFORE :: COMMAND of the shell, the first not timed, by object and kept/part00 to 19; what "
            "verify needs at least: floor=true :: ls kept/* | xargs -n 1 -P 0 xxh128sum"},
           {"size", "1G", "bytes of the file, suffixes K, M, G"},
           {"folder", "/dev/shm", "where it lies; five times its size must fit"},
           {"rounds", "5", "runs of each command, in turn, after two that are not counted"}},
          measure_files};
}

}  // namespace ec::bench
