// The file for Prometheus: its words, how it comes and goes, and that nothing about it troubles the process.
#include "plugin/codec/stats/metrics.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/metrics_file.hpp"
#include "plugin/codec/stats/metrics_text.hpp"
#include "tests/plugin/codec/stripe.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using codec::Counters;
using codec::Operation;
using kernels::Status;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/ec_metrics_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ / name; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path_)) all.insert(entry.path().filename());
    return all;
  }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Each series with its value. Fails where the text is not what node_exporter takes.
std::map<std::string, double> series_of(const std::string& text) {
  static const std::regex sample(
      R"re((ec_cuda_[a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\}) ([0-9.e+-]+))re");
  std::map<std::string, double> series;
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, name, type;
    words >> hash >> what >> name >> type;
    if (hash == "#") {
      if (what == "TYPE") {
        EXPECT_TRUE(types.emplace(name, type).second) << "twice: " << line;
      }
      continue;
    }
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, sample)) << line;
    const std::string family = std::regex_replace(match[1].str(), std::regex("_(bucket|sum|count)$"), "");
    const auto declared = types.find(types.contains(match[1]) ? match[1].str() : family);
    EXPECT_NE(declared, types.end()) << "no type: " << line;
    if (declared != types.end() && declared->second == "counter") {
      EXPECT_TRUE(declared->first.ends_with("_total")) << line;
    }
    EXPECT_TRUE(series.emplace(match[1].str() + match[2].str(), std::stod(match[4])).second)
        << "twice: " << line;
  }
  return series;
}

/// A page with a job of every kind.
std::unique_ptr<Counters> known_counts() {
  auto counts = std::make_unique<Counters>();
  auto& page = counts->page();
  const std::string_view names[] = {"cuda", "x86"};
  for (std::size_t b = 0; b < 2; ++b) std::copy(names[b].begin(), names[b].end(), page.backends[b].begin());
  for (int i = 0; i < 5; ++i)
    Counters::Job(*counts, Operation::decode, 1000, Counters::Timed::never).finished(1);
  Counters::Job(*counts, Operation::encode, 10, Counters::Timed::never).fell_back(0, Status::hung);
  codec::Row& row = page.shards[3].rows[1][static_cast<std::size_t>(Operation::decode)];
  row.large.jobs = {1, 0, 2};
  row.large.jobs.back() = 1;
  row.large.nanoseconds = 5'000'000'000;
  counts->happened(codec::Event::plan_solved, 2);
  page.device.state = static_cast<std::uint64_t>(kernels::DeviceState::latched);
  page.device.latches = 3;
  page.checks[0] = {70, 1, 0};
  page.arena = {100, 50, 60, 4, 3, 1};
  return counts;
}

TEST(MetricsText, HasEverySeriesOnceAndItsValue) {
  const auto counts = known_counts();
  const auto series = series_of(codec::metrics_text(counts->page(), "osd.3"));
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    const auto at =
        series.find("ec_cuda_" + name + "{process=\"osd.3\"" + (labels.empty() ? "" : ",") + labels + "}");
    return at == series.end() ? -1.0 : at->second;
  };
  const std::string decode = R"(backend="x86",operation="decode")";
  EXPECT_EQ(value("jobs_total", decode), 5);
  EXPECT_EQ(value("jobs_total", R"(backend="x86",operation="encode")"), -1) << "never ran";
  EXPECT_EQ(value("source_bytes_total", decode), 5000);
  for (const char* operation : {"encode", "decode", "update"})
    for (const char* cause : {"unsupported", "busy", "fault", "hung"}) {
      const bool happened = operation == std::string("encode") && cause == std::string("hung");
      EXPECT_EQ(value("fallbacks_total",
                      fmt::format(R"(backend="cuda",operation="{}",cause="{}")", operation, cause)),
                happened ? 1 : 0);
    }
  const std::string large = decode + R"(,size="large")";
  EXPECT_EQ(value("job_duration_seconds_bucket", large + R"(,le="1.25e-07")"), 1);
  EXPECT_EQ(value("job_duration_seconds_bucket", large + R"(,le="2.5e-07")"), 1);
  EXPECT_EQ(value("job_duration_seconds_bucket", large + R"(,le="5e-07")"), 3);
  EXPECT_EQ(value("job_duration_seconds_bucket", large + R"(,le="0.524288")"), 3);
  EXPECT_EQ(value("job_duration_seconds_count", large), 4);
  EXPECT_EQ(value("job_duration_seconds_sum", large), 5);
  EXPECT_EQ(value("decode_plans_total", R"(result="solved")"), 2);
  EXPECT_EQ(value("decode_plans_total", R"(result="found")"), 0);
  EXPECT_EQ(value("validations_total", R"(backend="cuda",result="checked")"), 70);
  EXPECT_EQ(value("validations_total", R"(backend="cuda",result="mismatch")"), 1);
  EXPECT_EQ(value("validations_total", R"(backend="x86",result="checked")"), -1) << "nobody validates it";
  EXPECT_EQ(value("device_up"), 0);
  EXPECT_EQ(value("device_latched"), 1);
  EXPECT_EQ(value("device_latches_total"), 3);
  EXPECT_EQ(value("arena_used_bytes"), 50);
  EXPECT_EQ(value("arena_blocks_total", R"(result="refused")"), 1);
}

TEST(MetricsText, SaysNothingOfADeviceThatTheBuildHasNot) {
  const Counters counts;
  const auto series = series_of(codec::metrics_text(counts.page(), "x"));
  for (const auto& [name, value] : series) {
    EXPECT_EQ(name.find("device"), std::string::npos) << name;
    EXPECT_EQ(name.find("arena"), std::string::npos) << name;
  }
  EXPECT_EQ(series.size(), 4u);
}

TEST(MetricsText, QuotesTheNameOfTheProcess) {
  const Counters counts;
  const auto text = codec::metrics_text(counts.page(), "a\"b\\c\nd");
  EXPECT_NE(text.find(R"(ec_cuda_start_time_seconds{process="a\"b\\c d"} )"), std::string::npos) << text;
}

TEST(ReplaceFile, IsWholeReadableAndLeavesNothingBeside) {
  const Folder folder;
  const mode_t before = umask(077);
  EXPECT_EQ(codec::replace_file(folder / "a.prom", "one"), 0);
  EXPECT_EQ(codec::replace_file(folder / "a.prom", "two"), 0);
  umask(before);
  EXPECT_EQ(content(folder / "a.prom"), "two");
  struct stat s {};
  ASSERT_EQ(stat((folder / "a.prom").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0644u);
  EXPECT_EQ(folder.names(), std::set<std::string>{"a.prom"});
}

TEST(ReplaceFile, FailsWithTheReasonAndNothingElse) {
  const Folder folder;
  EXPECT_EQ(codec::replace_file(folder / "none/a.prom", "x"), -ENOENT);
  fs::create_directory(folder.path() / "b.prom");
  EXPECT_EQ(codec::replace_file(folder / "b.prom", "x"), -EISDIR);
  EXPECT_EQ(folder.names(), std::set<std::string>{"b.prom"});
  EXPECT_EQ(codec::replace_file("/dev/full/a.prom", "x"), -ENOTDIR);
}

TEST(ReplaceFile, TakesThePlaceOfWhatAKilledProcessLeft) {
  const Folder folder;
  const auto left = fmt::format("a.prom.{}.tmp", getpid());
  std::ofstream(folder / left) << "half";
  EXPECT_EQ(codec::replace_file(folder / "a.prom", "whole"), 0);
  EXPECT_EQ(folder.names(), std::set<std::string>{"a.prom"});
}

// --- The writer. A process has one, so each test has a process.

bool encode() {
  Stripe stripe("cauchy", 3, 2, 100, 1);
  const codec::Codec codec(gf::Technique::cauchy, 3, 2, codec::Router(codec::BackendChoice::reference, 0));
  return codec.encode(stripe.data(), stripe.coding(), 100) == Status::ok;
}

template <class Condition>
bool becomes_true(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void say(const char* line) { std::fprintf(stderr, "%s\n", line); }

/// As the plugin does when it is loaded; the first job comes later.
void wish(const std::string& path) { codec::want_metrics({path, std::chrono::seconds(1), say}); }

/// Names of this process's threads.
std::multiset<std::string> threads() {
  std::multiset<std::string> names;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    names.insert(name);
  }
  return names;
}

/// Runs `body` in a process that ends by exit(), with 0 if it returned true.
void in_process(const std::function<bool()>& body, const char* log = "") {
  EXPECT_EXIT(std::exit(body() ? 0 : 1), testing::ExitedWithCode(0), log);
}

class MetricsWriter : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// A death test of this style runs the test again, so the folder must be the same one: it is made by the
/// first.
std::string shared_folder(const char* name) {
  const auto path = fs::temp_directory_path() / fmt::format("ec_metrics_{}_{}", name, getuid());
  fs::create_directories(path);
  return path;
}

TEST_F(MetricsWriter, WritesWhileTheProcessCodesAndRemovesTheFileAtExit) {
  const auto folder = shared_folder("writes");
  const auto file = folder + "/osd.7.prom";
  in_process([&] {
    wish(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (fs::exists(file) || threads().contains("ec_cuda_metrics")) return false;  // not before the first job
    if (!encode() || !becomes_true([&] { return fs::exists(file); })) return false;
    const std::string line =
        "ec_cuda_jobs_total{process=\"osd.7\",backend=\"reference\",operation=\"encode\"} ";
    if (!becomes_true([&] { return content(file).find(line + "1\n") != std::string::npos; })) return false;
    return encode() && becomes_true([&] { return content(file).find(line + "2\n") != std::string::npos; });
  });
  EXPECT_TRUE(fs::is_empty(folder)) << "the file is removed, and nothing is left beside it";
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, WritesWhatManyThreadsCount) {
  const auto folder = shared_folder("many");
  const auto file = folder + "/a.prom";
  in_process([&] {
    wish(file);
    std::atomic<bool> done{false};
    std::atomic<unsigned> encoded{0};
    std::vector<std::thread> crew;
    for (int t = 0; t < 4; ++t)
      crew.emplace_back([&] {
        while (!done) encoded += encode();
      });
    const auto jobs = [&] {
      const auto series = series_of(content(file));
      const auto at =
          series.find(R"(ec_cuda_jobs_total{process="a",backend="reference",operation="encode"})");
      return at == series.end() ? 0.0 : at->second;
    };
    double first = 0;
    bool grows = becomes_true([&] { return (first = jobs()) > 0; });
    grows = grows && becomes_true([&] { return jobs() > first; });
    done = true;
    for (auto& thread : crew) thread.join();
    const double all = encoded;
    return grows && becomes_true([&] { return jobs() == all; });
  });
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, HasAThreadOfThatNameThatTakesNoSignal) {
  const auto folder = shared_folder("thread");
  in_process([&] {
    wish(folder + "/a.prom");
    if (!encode() || !becomes_true([] { return threads().count("ec_cuda_metrics") == 1; })) return false;
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      const auto status = content(entry.path() / "status");
      if (status.find("ec_cuda_metrics") == std::string::npos) continue;
      const auto at = status.find("SigBlk:\t");
      const auto blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
      for (const int number : {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD})
        if ((blocked >> (number - 1) & 1) == 0) return false;
      return true;
    }
    return false;
  });
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, PutsThePidInItsPlace) {
  const auto folder = shared_folder("pid");
  in_process([&] {
    wish(folder + "/{pid}/ec.{pid}.prom");
    fs::create_directory(folder + "/" + std::to_string(getpid()));
    const auto file = fmt::format("{0}/{1}/ec.{1}.prom", folder, getpid());
    return encode() && becomes_true([&] { return fs::exists(file); });
  });
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, SaysOnceThatItCannotWriteAndGoesOn) {
  in_process(
      [] {
        wish("/nowhere/at/all.prom");
        for (int i = 0; i < 1000; ++i)
          if (!encode()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2300));  // two more attempts
        return encode();
      },
      "^ec_cuda: EC_CUDA_METRICS: /nowhere/at/all.prom cannot be written: No such file or directory; tried "
      "again every "
      "1 s, and not said again\n$");
}

TEST_F(MetricsWriter, ComesLateToAFolderThatComesLate) {
  const auto folder = shared_folder("late");
  fs::remove_all(folder);
  in_process(
      [&] {
        wish(folder + "/a.prom");
        if (!encode()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        fs::create_directory(folder);
        return becomes_true([&] { return fs::exists(folder + "/a.prom"); });
      },
      "cannot be written");
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, StartsInTheDaemonThatForksAfterLoading) {
  const auto folder = shared_folder("daemon");
  const auto file = folder + "/a.prom";
  in_process([&] {
    wish(file);
    const pid_t daemon = fork();
    if (daemon == 0) std::exit(encode() && becomes_true([&] { return fs::exists(file); }) ? 0 : 1);
    int status = 0;
    return waitpid(daemon, &status, 0) == daemon && status == 0 && !fs::exists(file);
  });
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, DoesNotWriteInAChildOfOneThatDoes) {
  const auto folder = shared_folder("child");
  const auto file = folder + "/a.{pid}.prom";
  in_process([&] {
    wish(file);
    const auto own = fmt::format("{}/a.{}.prom", folder, getpid());
    if (!encode() || !becomes_true([&] { return fs::exists(own); })) return false;
    const pid_t child = fork();
    if (child == 0) {
      const bool coded = encode() && threads().count("ec_cuda_metrics") == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      std::exit(coded ? 0 : 1);  // runs the destructors that it inherited
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return false;
    return fs::exists(own) && std::distance(fs::directory_iterator(folder), {}) == 1;
  });
  fs::remove_all(folder);
}

TEST_F(MetricsWriter, DoesNotHoldUpTheEndUntilTheNextWriting) {
  const auto folder = shared_folder("end");
  const auto start = std::chrono::steady_clock::now();
  in_process([&] {
    codec::want_metrics({folder + "/a.prom", std::chrono::hours(1), say});
    return encode() && becomes_true([&] { return fs::exists(folder + "/a.prom"); });
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ec::test
