// The calibration file: what is written is read, and anything else is refused with a reason and does no harm.
#include "plugin/codec/routing/calibration.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "plugin/codec/settings/setup_error.hpp"
#include "tests/common/folder.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using codec::Calibration;
using codec::Costs;
using codec::CostTable;
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
std::string refusal(const std::string& text, const Machine& machine = here) try {
  codec::parse_calibration(text, machine);
  return {};
} catch (const codec::SetupError& error) {
  return error.what();
}

TEST(CalibrationFile, WhatIsWrittenIsRead) {
  Calibration c = measured();
  EXPECT_EQ(codec::parse_calibration(codec::to_json(c), here), c);
  c.costs.pageable.reset();
  EXPECT_EQ(codec::parse_calibration(codec::to_json(c), here), c);
  c.gpu.clear();
  const CostTable built_in = codec::default_costs(),
                  read = codec::parse_calibration(codec::to_json(c), here).costs;
  EXPECT_EQ(read, (CostTable{c.costs.cpu, built_in.pageable, built_in.pinned})) << "without a device";
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
    static_cast<void>(refusal(damaged));
  }
}

/// Who may have written it and what it may be is support's to say (tests/support/files_test.cpp).
TEST(CalibrationOnDisk, IsWrittenWholeAndUsedOrRefusedInOneLine) {
  const Folder folder;
  const std::string path = folder / "a/b/c.json";
  // A new one, and over an old one; with nothing else left there.
  for (int i = 0; i < 2; ++i) codec::write_calibration(path, measured());
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0644u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "a/b"), fs::directory_iterator()), 1);
  EXPECT_EQ(codec::costs_from(path, here), (Costs{measured().costs, path, ""}));

  const auto refused = [&](const std::string& file, const std::string& why) {
    EXPECT_EQ(codec::costs_from(file, here),
              (Costs{codec::default_costs(), "",
                     "ec_cuda: " + file + " is not used, costs are the built-in ones: " + why}));
  };
  std::ofstream(path) << "{}";
  refused(path, "it has no format");
  chmod(path.c_str(), 0666);
  refused(path, "others may write to it (chmod go-w mends that)");
  std::ofstream(folder / "large") << codec::to_json(measured()) + std::string(65536, ' ');
  refused(folder / "large", "it is larger than 65536 bytes");
  refused(folder / "none", "it cannot be opened: No such file or directory");
  if (!fs::exists(codec::default_calibration)) {
    EXPECT_EQ(codec::costs_from("", here), Costs()) << "it need not be there";
  }

  try {
    codec::write_calibration(folder / "a", measured());
    ADD_FAILURE() << "a directory was replaced";
  } catch (const codec::SetupError& error) {
    EXPECT_EQ(error.code(), EISDIR);
    EXPECT_EQ(error.what(), folder / "a" + " cannot be written: Is a directory");
  }
}

}  // namespace
}  // namespace ec::test
