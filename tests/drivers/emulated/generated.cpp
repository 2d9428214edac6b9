// Reads generated programs for what they say of themselves.
#include "tests/drivers/emulated/generated.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sstream>

namespace ec::test::emulated {
namespace {

constexpr std::string_view magic = "EMULATED PROGRAM ";

/// What follows "#define name " up to the end of the line.
std::optional<std::string> definition(std::string_view source, std::string_view name) {
  const std::string start = "#define " + std::string(name) + " ";
  const auto at = source.find(start);
  if (at == source.npos) return std::nullopt;
  const auto from = at + start.size();
  return std::string(source.substr(from, source.find('\n', from) - from));
}

}  // namespace

std::string image_of(std::string_view source) {
  std::ostringstream body;
  for (const char* name : {"K", "M", "THREADS", "ACCUMULATE"}) {
    const auto value = definition(source, name);
    if (!value) return {};
    body << *value << ' ';
  }
  auto coefficients = definition(source, "COEFFICIENTS");
  if (!coefficients) return {};
  std::ranges::replace(*coefficients, ',', ' ');
  body << (source.find("#define BATCH") != source.npos) << ' ' << *coefficients;
  std::ostringstream image;
  image << magic << body.str().size() << ' ' << std::hash<std::string>()(body.str()) << '\n' << body.str();
  return image.str();
}

std::optional<Program> read_image(const void* image) {
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text, magic.data(), magic.size()) != 0) return std::nullopt;
  std::size_t length = 0, hash = 0;
  const auto* body = static_cast<const char*>(std::memchr(text, '\n', 64));
  if (body == nullptr || std::sscanf(text + magic.size(), "%zu %zu", &length, &hash) != 2 ||
      length > (1 << 20))
    return std::nullopt;
  const std::string said(body + 1, length);
  if (std::hash<std::string>()(said) != hash) return std::nullopt;
  std::istringstream in(said);
  Program p;
  in >> p.sources >> p.targets >> p.threads >> p.accumulate >> p.batch;
  for (unsigned c = 0; in >> c;) p.coefficients.push_back(static_cast<std::uint8_t>(c));
  if (p.coefficients.size() != std::size_t{p.sources} * p.targets) return std::nullopt;
  return p;
}

}  // namespace ec::test::emulated
