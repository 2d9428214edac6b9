// A file with a text, gone with the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ec::test {

class SmallFile {
 public:
  explicit SmallFile(std::string_view text) : path_(testing::TempDir() + "ec_small_file_XXXXXX") {
    close(mkstemp(path_.data()));
    write(text);
  }
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;
  ~SmallFile() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }
  void write(std::string_view text) const { std::ofstream(path_) << text; }

 private:
  std::string path_;
};

}  // namespace ec::test
