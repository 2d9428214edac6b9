// Reads generated programs for what they say of themselves, and computes that.
#include "tests/drivers/emulated/generated.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sstream>

#include "tests/common/oracle.hpp"
#include "tests/drivers/emulated/emulation.hpp"
#include "tests/drivers/emulated/memory.hpp"

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

/// A launch's parameter as 64-bit words.
std::uint64_t word(const Launch& l, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, l.parameter.data() + 8 * index, 8);
  return value;
}

struct Stripes {
  const std::uint64_t* addresses;
  std::uint64_t bytes, count;
};

Stripes stripes_of(const Program& p, const Launch& l) {
  const std::size_t addresses = p.batch ? 1 : p.sources + p.targets;
  const void* first = p.batch ? view(reinterpret_cast<const void*>(word(l, 0))) : l.parameter.data();
  return {static_cast<const std::uint64_t*>(first), word(l, addresses), p.batch ? word(l, addresses + 1) : 1};
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

CUresult check_generated(const Program& p, const Launch& l) {
  if (l.block_x != p.threads || l.block_y != 1 || l.grid_y != 1) return CUDA_ERROR_INVALID_VALUE;
  const Stripes stripes = stripes_of(p, l);
  if (p.batch && !reachable(reinterpret_cast<const void*>(word(l, 0)),
                            8 * stripes.count * (p.sources + p.targets), l.ordinal))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::size_t i = 0; i < stripes.count * (p.sources + p.targets); ++i) {
    const auto* chunk = reinterpret_cast<const std::uint8_t*>(stripes.addresses[i]);
    if (stripes.addresses[i] % 16 != 0) return CUDA_ERROR_MISALIGNED_ADDRESS;
    if (!reachable(chunk, stripes.bytes, l.ordinal)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return CUDA_SUCCESS;
}

void run_generated(const Program& p, const Launch& l) {
  const Stripes stripes = stripes_of(p, l);
  const std::size_t width = p.sources + p.targets;
  for (std::uint64_t stripe = 0; stripe < stripes.count; ++stripe)
    for (unsigned t = 0; t < p.targets; ++t) {
      const auto chunk = [&](std::size_t i) {
        return view(reinterpret_cast<const void*>(stripes.addresses[stripe * width + i]));
      };
      std::uint8_t* target = chunk(p.sources + t);
      if (!p.accumulate) std::fill(target, target + stripes.bytes, 0);
      for (unsigned s = 0; s < p.sources; ++s) {
        const std::uint8_t* source = chunk(s);
        const std::uint8_t c = p.coefficients[t * p.sources + s];
        for (std::uint64_t i = 0; i < stripes.bytes; ++i) target[i] ^= oracle::mul(c, source[i]);
      }
    }
}

}  // namespace ec::test::emulated
