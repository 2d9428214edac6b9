// The calibration file: what is written is read, and anything else is refused with a reason and does no harm.
#include "plugin/codec/routing/calibration.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "plugin/codec/settings/setup_error.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using codec::Calibration;
using codec::Costs;
using codec::Machine;
using nlohmann::json;

const Machine here{"Some CPU @ 3 GHz", {"Some GPU", "Another GPU"}};

Calibration measured() {
  Calibration c{here.cpu, "Some GPU", "2026-11-21T00:00:00Z", {}};
  c.costs.cpu = {
      {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}, {11, 12, 13, 14, 16}, {11, 12, 13, 14, 0.1}}};
  c.costs.pageable = codec::Rates{15, 16, 17, 18, 19};
  c.costs.pinned = {20, 21, 22, 23, 24};
  return c;
}

/// Empty if the text is taken.
std::string refusal(const std::string& text, const Machine& machine = here) {
  std::string why;
  const auto parsed = codec::parse_calibration(text, machine, &why);
  EXPECT_EQ(parsed.has_value(), why.empty());
  return why;
}

TEST(CalibrationFile, WhatIsWrittenIsRead) {
  std::string why;
  EXPECT_EQ(codec::parse_calibration(codec::to_json(measured()), here, &why), measured()) << why;
  Calibration without_pageable = measured();
  without_pageable.costs.pageable.reset();
  EXPECT_EQ(codec::parse_calibration(codec::to_json(without_pageable), here, &why), without_pageable) << why;
}

TEST(CalibrationFile, WithoutADeviceItsCostsAreTheBuiltInOnes) {
  Calibration c = measured();
  c.gpu.clear();
  std::string why;
  const auto parsed = codec::parse_calibration(codec::to_json(c), here, &why);
  ASSERT_TRUE(parsed) << why;
  EXPECT_EQ(parsed->costs.cpu, c.costs.cpu);
  EXPECT_EQ(parsed->costs.pinned, codec::default_costs().pinned);
  EXPECT_EQ(parsed->costs.pageable, codec::default_costs().pageable);
}

TEST(CalibrationFile, OfAnotherMachineIsRefused) {
  const auto text = codec::to_json(measured());
  EXPECT_EQ(refusal(text, {"Another CPU", here.gpus}), "it was measured on another CPU than this machine's");
  EXPECT_EQ(refusal(text, {here.cpu, {"Another GPU"}}), "it was measured on another GPU than this machine's");
  // Where GPUs cannot be told, there is either none or no telling.
  EXPECT_EQ(refusal(text, {here.cpu, {}}), "");
}

TEST(CalibrationFile, HostileTextsAreRefusedWithAReason) {
  struct Row {
    std::function<void(json&)> change;
    std::string why;
  };
  const auto costs = [](const char* name) {
    return name + std::string(" must be a number from 0 to 1000000000");
  };
  const Row rows[] = {
      {[](json& f) { f = json::array(); }, "it has no format"},
      {[](json& f) { f = 7; }, "it has no format"},
      {[](json& f) { f = nullptr; }, "it has no format"},
      {[](json& f) { f.erase("format"); }, "it has no format"},
      {[](json& f) { f["format"] = 1; }, "it is of format 1, and this version reads format 3"},
      {[](json& f) { f["format"] = "1"; }, "format must be a number from 0 to 1000000"},
      {[](json& f) { f.erase("cpu"); }, "it has no cpu"},
      {[](json& f) { f["cpu"] = 1; }, "cpu must be a text of at most 256 bytes"},
      {[](json& f) { f["cpu"] = std::string(257, 'x'); }, "cpu must be a text of at most 256 bytes"},
      {[](json& f) { f.erase("cpu_costs"); }, "it has no cpu_costs"},
      {[](json& f) { f["cpu_costs"] = json::object(); }, "cpu_costs must be a list of 5 classes"},
      {[](json& f) { f["cpu_costs"].erase(0); }, "cpu_costs must be a list of 5 classes"},
      {[](json& f) { f["cpu_costs"].push_back(f["cpu_costs"][3]); }, "cpu_costs must be a list of 5 classes"},
      {[](json& f) { f["cpu_costs"][4] = "x"; }, "it has no call_us"},
      {[](json& f) { f["cpu_costs"][0]["call_us"] = -0.001; }, costs("call_us")},
      {[](json& f) { f["cpu_costs"][0]["call_us"] = 1.1e9; }, costs("call_us")},
      {[](json& f) { f["cpu_costs"][0]["call_us"] = nullptr; }, costs("call_us")},
      {[](json& f) { f["cpu_costs"][3]["product_us_per_mb"] = "1"; }, costs("product_us_per_mb")},
      {[](json& f) { f["cpu_costs"][3].erase("stripe_us"); }, "it has no stripe_us"},
      {[](json& f) { f.erase("device"); }, "it has no device"},
      {[](json& f) { f["device"] = 1; }, "it has no gpu"},
      {[](json& f) { f["device"]["gpu"] = ""; }, "gpu must not be empty"},
      {[](json& f) { f["device"].erase("pageable"); }, "it has no pageable"},
      {[](json& f) { f["device"]["pageable"] = false; }, "it has no call_us"},
      {[](json& f) { f["device"]["pinned"] = nullptr; }, "it has no call_us"},
      {[](json& f) { f["device"]["pinned"]["written_us_per_mb"] = true; }, costs("written_us_per_mb")},
  };
  const json good = json::parse(codec::to_json(measured()));
  ASSERT_EQ(refusal(good.dump()), "");
  for (const Row& row : rows) {
    json file = good;
    row.change(file);
    EXPECT_EQ(refusal(file.dump()), row.why) << file.dump();
  }
}

TEST(CalibrationFile, WhatIsNotJsonIsRefused) {
  std::string text = codec::to_json(measured());
  for (const std::string& wrong :
       {std::string(), std::string("\0", 1), std::string("{"), std::string("\xff\xfe{}"), std::string("NaN"),
        std::string("{\"format\":1e999}"), text + "x", text.substr(0, text.size() / 2),
        std::string(60'000, '['), std::string(30'000, '[') + std::string(30'000, ']') + "]"})
    EXPECT_EQ(refusal(wrong), "it is not JSON") << wrong.substr(0, 80);
  // Nested as deep as a file can be.
  EXPECT_EQ(refusal(std::string(30'000, '[') + std::string(30'000, ']')), "it has no format");
  // Every byte in turn damaged: refused or read, and never worse.
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x13);
    std::string why;
    static_cast<void>(codec::parse_calibration(damaged, here, &why));
  }
}

class OnDisk : public testing::Test {
 protected:
  OnDisk() {
    char name[] = "/tmp/calibration-test.XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ / "file.json";
  }
  ~OnDisk() override { fs::remove_all(directory_); }

  void write(const std::string& text, mode_t mode = 0644) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  void expect_refused(const std::string& why) const {
    const Costs costs = codec::costs_from(path_, here);
    EXPECT_EQ(costs.refused,
              "ec_cuda: " + path_.string() + " is not used, costs are the built-in ones: " + why);
    EXPECT_EQ(costs.table, codec::default_costs());
    EXPECT_EQ(costs.path, "");
  }

  fs::path directory_, path_;
};

TEST_F(OnDisk, AGoodFileIsUsed) {
  write(codec::to_json(measured()));
  const Costs costs = codec::costs_from(path_, here);
  EXPECT_EQ(costs.table, measured().costs);
  EXPECT_EQ(costs.path, path_);
  EXPECT_EQ(costs.refused, "");
}

TEST_F(OnDisk, ABadOneIsRefusedInOneLine) {
  write("{}");
  expect_refused("it has no format");
}

TEST_F(OnDisk, WhatOthersMayWriteIsNotTrusted) {
  for (const mode_t mode : {0666, 0664, 0602}) {
    write(codec::to_json(measured()), mode);
    expect_refused("others may write to it (chmod go-w mends that)");
  }
}

TEST_F(OnDisk, AnotherUsersFileIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  write(codec::to_json(measured()));
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  expect_refused("it belongs to user 12345, and only root's or one's own is trusted");
}

TEST_F(OnDisk, OnlyARegularFileOfModestSizeIsRead) {
  expect_refused("it cannot be opened: No such file or directory");
  write(codec::to_json(measured()) + std::string(65536, ' '));
  expect_refused("it is larger than 65536 bytes");
  fs::remove(path_);
  // Nobody writes to it: to wait for that would be to hang.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_refused("it is not a regular file");
  fs::remove(path_);
  fs::create_directory(path_);
  expect_refused("it is not a regular file");
  fs::remove(path_);
  fs::create_symlink(path_, path_);
  expect_refused("it cannot be opened: Too many levels of symbolic links");
}

TEST_F(OnDisk, TheFirstThatIsThereEndsTheSearch) {
  const std::string missing = directory_ / "no" / "such", below_a_file = path_ / "x";
  write(codec::to_json(measured()));
  EXPECT_EQ(codec::find_costs({missing, below_a_file, path_}, here).path, path_);
  EXPECT_EQ(codec::find_costs({missing}, here).path, "");
  EXPECT_EQ(codec::find_costs({missing}, here).refused, "");
  const fs::path second = directory_ / "second.json";
  fs::copy(path_, second);
  write("{}");
  EXPECT_NE(codec::find_costs({path_, second}, here).refused, "");
  EXPECT_EQ(codec::find_costs({path_, second}, here).path, "");
}

TEST_F(OnDisk, IsWrittenWholeOrNotAtAll) {
  const fs::path deep = directory_ / "a" / "b" / "c.json";
  codec::write_calibration(deep, measured());
  struct stat st {};
  ASSERT_EQ(stat(deep.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0644u);
  EXPECT_EQ(codec::costs_from(deep, here).table, measured().costs);
  // Over an old one, and with nothing else left there.
  codec::write_calibration(deep, measured());
  EXPECT_EQ(std::distance(fs::directory_iterator(deep.parent_path()), fs::directory_iterator()), 1);

  fs::create_directory(path_);
  try {
    codec::write_calibration(path_, measured());
    ADD_FAILURE() << "a directory was replaced";
  } catch (const codec::SetupError& error) {
    EXPECT_EQ(error.code(), EISDIR);
    EXPECT_EQ(error.what(), path_.string() + " cannot be written: Is a directory");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 2);
}

TEST(CalibrationPaths, AreTheUsersThenTheMachines) {
  const auto paths = [](std::map<std::string, std::string> variables) {
    return codec::calibration_paths([&](const char* name) -> const char* {
      const auto at = variables.find(name);
      return at == variables.end() ? nullptr : at->second.c_str();
    });
  };
  using Paths = std::vector<std::string>;
  const std::string etc = "/etc/ec_cuda/calibration.json";
  EXPECT_EQ(paths({}), Paths{etc});
  EXPECT_EQ(paths({{"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}}), (Paths{"/x/ec_cuda/calibration.json", etc}));
  EXPECT_EQ(paths({{"HOME", "/h"}}), (Paths{"/h/.config/ec_cuda/calibration.json", etc}));
  EXPECT_EQ(paths({{"XDG_CONFIG_HOME", "relative"}, {"HOME", ""}}), Paths{etc});
}

}  // namespace
}  // namespace ec::test
