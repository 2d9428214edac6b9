// Every variable with right and wrong values, and the exact sentence an operator gets to read.
#include "plugin/codec/settings/settings.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/codec/settings/setup_error.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::NodeSettings;
using codec::Validation;

NodeSettings parse(const std::map<std::string, std::string>& variables) {
  return codec::parse_node_settings([&](const char* variable) -> const char* {
    const auto at = variables.find(variable);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

/// The message for one wrong value; empty if it was taken.
std::string refusal(const char* variable, const std::string& value) {
  try {
    parse({{variable, value}});
    return {};
  } catch (const codec::SetupError& error) {
    EXPECT_EQ(error.code(), EINVAL);
    return error.what();
  }
}

TEST(Settings, DefaultsWithoutAnyVariable) {
  const auto s = parse({});
  EXPECT_FALSE(s.backend);
  EXPECT_EQ(s.devices, std::vector{0});
  EXPECT_EQ(s.threshold_bytes, std::nullopt);
  EXPECT_EQ(s.calibration, "");
  EXPECT_EQ(s.costs.table, codec::default_costs());
  EXPECT_EQ(s.deadline, std::chrono::milliseconds(2000));
  EXPECT_EQ(s.retry_after, std::chrono::seconds(60));
  EXPECT_EQ(s.staging_bytes, 256u << 20);
  EXPECT_EQ(s.staging_threads, 2u);
  EXPECT_EQ(s.pinned_bytes, 1u << 30);
  EXPECT_EQ(s.pinned_threshold, 32u << 10);
  EXPECT_FALSE(s.pinned_report);
  EXPECT_EQ(s.validation, (Validation{.every = 1000, .whole = false}));
  EXPECT_EQ(s.reproducers, "");
}

TEST(Settings, DevicesAreAListOfOrdinals) {
  for (const std::string wrong :
       {"", "64", "1K", "-1", "+1", "0,", ",1", "0,,1", "0, 1", "all", "1,1", "0,1,0", "99999999999999999999",
        "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"})
    EXPECT_EQ(refusal("EC_CUDA_DEVICES", wrong),
              "EC_CUDA_DEVICES=" + wrong +
                  " must be ordinals of GPUs from 0 to 63, separated by commas, at most 16 and no two alike");
}

TEST(Settings, BackendTakesEachName) {
  const std::vector<std::pair<std::string, BackendChoice>> names{
      {"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu},
      {"gpu", BackendChoice::gpu},        {"x86", BackendChoice::x86},
      {"isal", BackendChoice::isal},      {"reference", BackendChoice::reference}};
  std::string listed;
  for (const auto& [text, choice] : names) {
    EXPECT_EQ(parse({{"EC_CUDA_BACKEND", text}}).backend, choice);
    EXPECT_EQ(codec::name(choice), text);
    listed += (listed.empty() ? "" : ", ") + text;
  }
  EXPECT_EQ(codec::backend_choice_names, listed);
}

TEST(Settings, BackendRefusesAnythingElse) {
  for (const std::string wrong : {"", "GPU", "cuda", "auto ", "isa-l"})
    EXPECT_EQ(refusal("EC_CUDA_BACKEND", wrong),
              "EC_CUDA_BACKEND=" + wrong + " must be one of auto, cpu, gpu, x86, isal, reference");
}

TEST(Settings, PlainNumbersInTheirRange) {
  EXPECT_EQ(parse({}).devices, std::vector{0});
  EXPECT_EQ(parse({{"EC_CUDA_DEVICES", "63"}}).devices, std::vector{63});
  EXPECT_EQ(parse({{"EC_CUDA_DEVICES", "2,0,1"}}).devices, (std::vector{2, 0, 1}));
  EXPECT_EQ(parse({{"EC_CUDA_DEADLINE_MS", "1"}}).deadline, std::chrono::milliseconds(1));
  EXPECT_EQ(parse({{"EC_CUDA_DEADLINE_MS", "600000"}}).deadline, std::chrono::milliseconds(600'000));
  EXPECT_EQ(parse({{"EC_CUDA_STAGING_THREADS", "0"}}).staging_threads, 0u);
  EXPECT_EQ(parse({{"EC_CUDA_STAGING_THREADS", "64"}}).staging_threads, 64u);
  EXPECT_EQ(parse({{"EC_CUDA_RETRY_S", "0"}}).retry_after, std::chrono::seconds(0));
  EXPECT_EQ(parse({{"EC_CUDA_RETRY_S", "86400"}}).retry_after, std::chrono::seconds(86'400));
}

TEST(Settings, SizesWithAndWithoutSuffix) {
  const auto threshold = [](const char* text) {
    return parse({{"EC_CUDA_THRESHOLD", text}}).threshold_bytes;
  };
  EXPECT_EQ(threshold("0"), 0u);
  EXPECT_EQ(threshold("4095"), 4095u);
  EXPECT_EQ(threshold("64K"), 65536u);
  EXPECT_EQ(threshold("3M"), 3u << 20);
  EXPECT_EQ(threshold("1024G"), std::size_t{1} << 40);
  EXPECT_EQ(threshold("1099511627776"), std::size_t{1} << 40);
  const auto staging = [](const char* text) {
    return parse({{"EC_CUDA_STAGING_BYTES", text}}).staging_bytes;
  };
  EXPECT_EQ(staging("1048576"), 1u << 20);
  EXPECT_EQ(staging("1M"), 1u << 20);
  EXPECT_EQ(staging("2G"), std::size_t{2} << 30);
  EXPECT_EQ(parse({{"EC_CUDA_PINNED_BYTES", "2M"}}).pinned_bytes, 2u << 20);
  EXPECT_EQ(parse({{"EC_CUDA_PINNED_BYTES", "1024G"}}).pinned_bytes, std::size_t{1} << 40);
  EXPECT_EQ(parse({{"EC_CUDA_PINNED_THRESHOLD", "4K"}}).pinned_threshold, 4096u);
  EXPECT_TRUE(parse({{"EC_CUDA_PINNED_REPORT", "1"}}).pinned_report);
  EXPECT_FALSE(parse({{"EC_CUDA_PINNED_REPORT", "0"}}).pinned_report);
}

TEST(Settings, PathsAreAbsoluteOrNone) {
  for (const std::string right : {"none", "/", "/etc/x.json"})
    EXPECT_EQ(parse({{"EC_CUDA_CALIBRATION", right}}).calibration, right);
  EXPECT_EQ(parse({{"EC_CUDA_REPRODUCERS", "none"}}).reproducers, "");
  EXPECT_EQ(parse({{"EC_CUDA_REPRODUCERS", "/var/lib/x"}}).reproducers, "/var/lib/x");
  for (const std::string variable : {"EC_CUDA_CALIBRATION", "EC_CUDA_REPRODUCERS"})
    for (const std::string wrong : {"", "x.json", "./x", "None", " /x"})
      EXPECT_EQ(refusal(variable.c_str(), wrong),
                variable + "=" + wrong + " must be an absolute path or none");
}

TEST(Settings, ValidationIsOffOrASampleOrAlways) {
  const auto validation = [](const char* text) { return parse({{"EC_CUDA_VALIDATE", text}}).validation; };
  EXPECT_EQ(validation("off"), (Validation{.every = 0, .whole = false}));
  EXPECT_EQ(validation("always"), (Validation{.every = 1, .whole = true}));
  EXPECT_EQ(validation("sample:1"), (Validation{.every = 1, .whole = false}));
  EXPECT_EQ(validation("sample:1000000000"), (Validation{.every = 1'000'000'000, .whole = false}));
  for (const std::string wrong :
       {"", "on", "Off", "always ", "sample", "sample:", "sample:0", "sample:-1", "sample:1k", "sample: 1",
        "sample:1000000001", "sample:99999999999999999999", "1000", "none"})
    EXPECT_EQ(refusal("EC_CUDA_VALIDATE", wrong),
              "EC_CUDA_VALIDATE=" + wrong +
                  " must be off, always, or sample:N with N from 1 to 1000000000, for one call in N");
}

TEST(Settings, NumbersOutOfRangeOrMalformedAreRefusedWithTheRange) {
  struct Row {
    const char* variable;
    std::string range;
    std::vector<std::string> wrong;
  };
  const char* suffixes = " bytes; the suffixes K, M and G multiply by powers of 1024";
  const std::string to_tib = std::string(" to 1099511627776") + suffixes;
  const std::vector<std::string> never{
      "", " ", "-1", "+1", "x", "1x", "1 ", " 1", "0x10", "1.5", "99999999999999999999"};
  const std::vector<Row> rows{
      {"EC_CUDA_DEADLINE_MS", "1 to 600000", {"0", "600001", "1K"}},
      {"EC_CUDA_RETRY_S", "0 to 86400", {"86401", "1K"}},
      {"EC_CUDA_STAGING_THREADS", "0 to 64", {"65", "1K"}},
      {"EC_CUDA_PINNED_REPORT", "0 to 1", {"2", "yes"}},
      {"EC_CUDA_PINNED_BYTES", "2097152" + to_tib, {"0", "1M", "2097151", "1025G"}},
      {"EC_CUDA_PINNED_THRESHOLD", "4096" + to_tib, {"0", "4095", "1025G"}},
      {"EC_CUDA_THRESHOLD", "", {"1025G", "1k", "1KB", "K", "1T", "18446744073709551615G"}},
      {"EC_CUDA_STAGING_BYTES", "", {"0", "1048575", "1023K", "1025G", "1m"}}};
  for (const Row& row : rows) {
    std::string range = row.range;
    if (range.empty()) range = (row.variable == std::string("EC_CUDA_THRESHOLD") ? "0" : "1048576") + to_tib;
    for (const auto* list : {&never, &row.wrong})
      for (const auto& wrong : *list)
        EXPECT_EQ(refusal(row.variable, wrong),
                  row.variable + ("=" + wrong) + " must be a whole number from " + range);
  }
}

TEST(Settings, UnknownVariablesOfOursAreNamed) {
  const char* block[] = {"PATH=/bin",
                         "EC_CUDA_BACKEND=cpu",
                         "EC_CUDA_DEVICES=1",
                         "EC_CUDA_THRESHOLD=1",
                         "EC_CUDA_RETRY_S=1",
                         "EC_CUDA_DEADLINE_MS=1",
                         "EC_CUDA_STAGING_BYTES=1M",
                         "EC_CUDA_STAGING_THREADS=0",
                         "EC_CUDA_PINNED_BYTES=1G",
                         "EC_CUDA_PINNED_THRESHOLD=64K",
                         "EC_CUDA_PINNED_REPORT=1",
                         "EC_CUDA_CALIBRATION=none",
                         "EC_CUDA_VALIDATE=off",
                         "EC_CUDA_REPRODUCERS=none",
                         "EC_CUD=1",
                         "XEC_CUDA_DEVIC=1",
                         nullptr};
  EXPECT_EQ(codec::unknown_settings(block), "");
  const char* wrong[] = {"EC_CUDA_DEVIC=0", "HOME=/", "EC_CUDA_=", "EC_CUDA_BACKENDS", nullptr};
  EXPECT_EQ(codec::unknown_settings(wrong), "EC_CUDA_DEVIC, EC_CUDA_, EC_CUDA_BACKENDS");
  EXPECT_EQ(codec::unknown_settings(nullptr), "");
}

TEST(SettingsDeathTest, AnUnknownVariableIsRefusedAtEveryCall) {
  // In a process of its own: the settings are read once.
  const auto run = [] {
    setenv("EC_CUDA_DEVICE", "0", 1);
    std::string texts;
    for (int i = 0; i < 2; ++i) try {
        codec::node_settings();
      } catch (const codec::SetupError& error) {
        texts += error.what();
        texts += '\n';
      }
    std::fputs(texts.c_str(), stderr);
    std::exit(7);
  };
  const std::string line =
      "unknown variable EC_CUDA_DEVICE; known are EC_CUDA_BACKEND, EC_CUDA_DEVICES, EC_CUDA_THRESHOLD, "
      "EC_CUDA_DEADLINE_MS, EC_CUDA_RETRY_S, EC_CUDA_STAGING_BYTES, EC_CUDA_STAGING_THREADS, "
      "EC_CUDA_PINNED_BYTES, "
      "EC_CUDA_PINNED_THRESHOLD, EC_CUDA_PINNED_REPORT, EC_CUDA_CALIBRATION, EC_CUDA_VALIDATE, "
      "EC_CUDA_REPRODUCERS\n";
  EXPECT_EXIT(run(), testing::ExitedWithCode(7), line + line);
}

}  // namespace
}  // namespace ec::test
