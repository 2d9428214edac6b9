// A program of the build: reads a list of codes (codes.txt) and writes their kernels.
//   emit_kernels LIST FOLDER
// writes FOLDER/ec_generated_<technique>_<k>_<m>.cu for each code, and FOLDER/generated_codes.cpp, the table
// of generated_codes.hpp.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/emit.hpp"

namespace ec::kernels::cuda {
namespace {

/// A file that holds this text already keeps its time, and is not compiled again.
void write(const std::string& path, const std::string& text) {
  std::ifstream there(path);
  if (std::string((std::istreambuf_iterator<char>(there)), {}) == text) return;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// Writes the kernels of a line of the list. Returns their row of the table.
std::string write_code(const std::string& line, const std::string& folder, std::string* arrays) {
  std::istringstream words(line);
  std::string technique, more;
  unsigned k = 0, m = 0;
  words >> technique >> k >> m;
  const auto known = gf::parse_technique(technique);
  if (!words || words >> more || !known) throw std::runtime_error("not a code: " + line);
  if (const std::string error = gf::shape_error(*known, k, m); !error.empty())
    throw std::runtime_error(line + ": " + error);
  if (m > most_emitted_rows) throw std::runtime_error("too many rows for registers: " + line);
  const std::string name = fmt::format("ec_generated_{}_{}_{}", technique, k, m);
  write(folder + "/" + name + ".cu",
        "#include \"kernels/cuda/generate/generated.cuh\"\n" + emit(name, gf::coding_matrix(*known, k, m)));
  *arrays += fmt::format("extern \"C\" const unsigned char ec_fatbin_{}[];\n", name);
  return fmt::format("    {{\"{0}\", ec_fatbin_{0}, gf::Technique::{1}, {2}, {3}}},\n", name, technique, k,
                     m);
}

void write_kernels(const char* list, const std::string& folder) {
  std::ifstream lines(list);
  if (!lines) throw std::runtime_error(std::string("cannot read ") + list);
  std::string arrays, table;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    table += write_code(line, folder, &arrays);
  }
  write(folder + "/generated_codes.cpp",
        "#include \"kernels/cuda/generate/generated_codes.hpp\"\n" + arrays +
            "namespace ec::kernels::cuda {\nstd::span<const GeneratedCode> generated_codes() noexcept {\n"
            "  static constexpr GeneratedCode codes[] = {\n" +
            table + "  };\n  return codes;\n}\n}\n");
}

}  // namespace
}  // namespace ec::kernels::cuda

int main(int count, char** arguments) try {
  if (count != 3) throw std::runtime_error("usage: emit_kernels LIST FOLDER");
  ec::kernels::cuda::write_kernels(arguments[1], arguments[2]);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "emit_kernels: " << e.what() << "\n";
  return 1;
}
