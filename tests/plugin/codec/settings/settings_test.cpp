// Every variable with right and wrong values, the exact sentence an operator gets to read, and the
// table of docs/operations.md.
#include "plugin/codec/settings/settings.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::NodeSettings;
using namespace std::chrono_literals;

NodeSettings parse(const std::map<std::string, std::string>& variables) {
  return codec::parse_node_settings([&](const char* variable) -> const char* {
    const auto at = variables.find(variable);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

/// The message for one wrong value; empty if it was taken.
std::string refusal(const std::string& variable, const std::string& value) {
  try {
    parse({{variable, value}});
    return {};
  } catch (const codec::SetupError& error) {
    EXPECT_EQ(error.code(), EINVAL);
    return error.what();
  }
}

struct SettingRow {
  std::string variable;
  /// Values, and what each changes in the defaults.
  std::vector<std::pair<std::string, std::function<void(NodeSettings&)>>> right;
  std::vector<std::string> wrong;
  std::string allowed;
};

const std::string sizes = " to 1099511627776 bytes; the suffixes K, M and G multiply by powers of 1024";
/// What no number is.
const std::vector<std::string> never{"",   " ",   "-1", "+1",   "x",
                                     "1x", "1 ",  " 1", "0x10", "1.5",
                                     "1k", "1KB", "K",  "1T",   "99999999999999999999"};
const std::vector<std::string> no_paths{"", "x.json", "./x", "None", " /x"};

auto validates(unsigned every, bool whole) {
  return [=](NodeSettings& s) { s.validation = codec::Validation{every, whole}; };
}

const std::vector<SettingRow> rows{
    {"EC_CUDA_BACKEND",
     {{"auto", [](auto& s) { s.backend = BackendChoice::automatic; }},
      {"cpu", [](auto& s) { s.backend = BackendChoice::cpu; }},
      {"gpu", [](auto& s) { s.backend = BackendChoice::gpu; }},
      {"x86", [](auto& s) { s.backend = BackendChoice::x86; }},
      {"isal", [](auto& s) { s.backend = BackendChoice::isal; }},
      {"reference", [](auto& s) { s.backend = BackendChoice::reference; }}},
     {"", "GPU", "cuda", "auto ", "isa-l"},
     "one of auto, cpu, gpu, x86, isal, reference"},
    {"EC_CUDA_DEVICES",
     {{"0", [](auto&) {}},
      {"63", [](auto& s) { s.device.devices = {63}; }},
      {"2,0,1",
       [](auto& s) {
         s.device.devices = std::vector{2, 0, 1};
       }}},
     {"", "64", "1K", "-1", "+1", "0,", ",1", "0,,1", "0, 1", "all", "1,1", "0,1,0", "99999999999999999999",
      "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"},
     "ordinals of GPUs from 0 to 63, separated by commas, at most 16 and no two alike"},
    {"EC_CUDA_THRESHOLD",
     {{"0", [](auto& s) { s.threshold_bytes = 0; }},
      {"4095", [](auto& s) { s.threshold_bytes = 4095; }},
      {"64K", [](auto& s) { s.threshold_bytes = 65536; }},
      {"3M", [](auto& s) { s.threshold_bytes = 3 << 20; }},
      {"1024G", [](auto& s) { s.threshold_bytes = std::size_t{1} << 40; }},
      {"1099511627776", [](auto& s) { s.threshold_bytes = std::size_t{1} << 40; }}},
     {"1025G", "18446744073709551615G"},
     "a whole number from 0" + sizes},
    {"EC_CUDA_DEADLINE_MS",
     {{"1", [](auto& s) { s.device.deadline = 1ms; }},
      {"600000", [](auto& s) { s.device.deadline = 10min; }}},
     {"0", "600001", "1K"},
     "a whole number from 1 to 600000"},
    {"EC_CUDA_RETRY_S",
     {{"0", [](auto& s) { s.device.retry_after = 0s; }},
      {"86400", [](auto& s) { s.device.retry_after = 24h; }}},
     {"86401", "1K"},
     "a whole number from 0 to 86400"},
    {"EC_CUDA_STAGING_BYTES",
     {{"1048576", [](auto& s) { s.device.staging_bytes = 1 << 20; }},
      {"1M", [](auto& s) { s.device.staging_bytes = 1 << 20; }},
      {"2G", [](auto& s) { s.device.staging_bytes = std::size_t{2} << 30; }}},
     {"0", "1048575", "1023K", "1025G", "1m"},
     "a whole number from 1048576" + sizes},
    {"EC_CUDA_VALIDATE",
     {{"off", validates(0, false)},
      {"always", validates(1, true)},
      {"sample:1", validates(1, false)},
      {"sample:1000000000", validates(1'000'000'000, false)}},
     {"", "on", "Off", "always ", "sample", "sample:", "sample:0", "sample:-1", "sample:1k", "sample: 1",
      "sample:1000000001", "sample:99999999999999999999", "1000", "none"},
     "off, always, or sample:N with N from 1 to 1000000000, for one call in N"},
    {"EC_CUDA_STOCK_DIRECTORY",
     {{"none", [](auto&) {}}, {"/usr/lib/x", [](auto& s) { s.stock_directory = "/usr/lib/x"; }}},
     no_paths,
     "an absolute path or none"},
    {"EC_CUDA_PINNED_BYTES",
     {{"2M", [](auto& s) { s.device.pinned_bytes = 2 << 20; }},
      {"1024G", [](auto& s) { s.device.pinned_bytes = std::size_t{1} << 40; }}},
     {"0", "1M", "2097151", "1025G"},
     "a whole number from 2097152" + sizes},
};

TEST(Settings, RightValuesAreTakenAndChangeNothingElse) {
  EXPECT_EQ(parse({}), NodeSettings());
  for (const SettingRow& row : rows)
    for (const auto& [value, change] : row.right) {
      NodeSettings expected;
      change(expected);
      EXPECT_EQ(parse({{row.variable, value}}), expected) << row.variable << "=" << value;
    }
}

TEST(Settings, WrongValuesAreRefusedWithWhatIsAllowed) {
  for (const SettingRow& row : rows) {
    std::vector<std::string> wrong = row.wrong;
    if (row.allowed.starts_with("a whole number")) wrong.insert(wrong.end(), never.begin(), never.end());
    for (const auto& value : wrong)
      EXPECT_EQ(refusal(row.variable, value),
                fmt::format("{}={} must be {}", row.variable, value, row.allowed));
  }
}

TEST(Settings, EachNameOfABackEndIsThatOfItsChoice) {
  for (const auto& [text, change] : rows[0].right)
    EXPECT_EQ(codec::name(*parse({{"EC_CUDA_BACKEND", text}}).backend), text);
}

/// Names, order and defaults; and that each has a row here.
TEST(Settings, AreThoseOfTheDocumentsTable) {
  std::vector<std::string> documented, tested;
  std::ifstream page(EC_SOURCE_DIR "/docs/operations.md");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `EC_CUDA_")) continue;
    const auto name = line.substr(3, line.find('`', 3) - 3);
    const auto from = line.find(" | ") + 3;
    std::string value = line.substr(from, line.find(" | ", from) - from);
    std::erase(value, '`');
    documented.push_back(name);
    if (value != "none" && value.find(' ') == std::string::npos) {
      EXPECT_EQ(parse({{name, value}}), NodeSettings()) << name << "'s default is not " << value;
    }
  }
  for (const SettingRow& row : rows) tested.push_back(row.variable);
  const std::vector<std::string> known(codec::known_settings().begin(), codec::known_settings().end());
  EXPECT_EQ(documented, known);
  EXPECT_EQ(tested, known);
}

TEST(Settings, UnknownVariablesOfOursAreNamed) {
  std::vector<std::string> lines{"PATH=/bin", "EC_CUD=1", "XEC_CUDA_DEVIC=1"};
  for (const auto name : codec::known_settings()) lines.push_back(std::string(name) + "=1");
  const auto unknown = [&] {
    std::vector<const char*> block;
    for (const auto& line : lines) block.push_back(line.c_str());
    block.push_back(nullptr);
    return codec::unknown_settings(block.data());
  };
  for (const char* retired : {"CALIBRATION=none", "REPRODUCERS=1", "PINNED_THRESHOLD=64K"})
    lines.push_back(std::string("EC_CUDA_") + retired);
  EXPECT_EQ(unknown(), "");
  lines = {"EC_CUDA_DEVIC=0", "HOME=/", "EC_CUDA_=", "EC_CUDA_BACKENDS", "EC_CUDA_METRICS=/x.prom"};
  EXPECT_EQ(unknown(), "EC_CUDA_DEVIC, EC_CUDA_, EC_CUDA_BACKENDS, EC_CUDA_METRICS");
  EXPECT_EQ(codec::unknown_settings(nullptr), "");
}

}  // namespace
}  // namespace ec::test
