#include "plugin/codec/checking/reproducer.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

#include "plugin/codec/routing/machine.hpp"
#include "support/files.hpp"

namespace ec::codec {
namespace {

using kernels::Residence;
using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr int format = 1;
constexpr unsigned page = 4096;
/// A chunk of Ceph's is shorter than 4 GiB.
constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 32;
constexpr std::string_view prefix = "mismatch-";

/// Why a text is no reproducer, or none could be written. Stays within this file.
struct Refused {
  std::string why;
};

unsigned misalignment(const void* chunk) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(chunk) % page);
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t b : bytes) {
    text += digits[b >> 4];
    text += digits[b & 15];
  }
  return text;
}

json to_json(const Reproducer::Piece& piece, const char* name_of_bytes) {
  return {{"residence", kernels::name(piece.residence)},
          {"misalignment", piece.misalignment},
          {name_of_bytes, hex(piece.bytes)}};
}

// --- Reading. Every function takes the whole name of what it reads, for the refusal.

const json& member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw Refused{fmt::format("{} must be an object", where.empty() ? "it" : where)};
  const auto at = object.find(key);
  if (at == object.end())
    throw Refused{fmt::format("{}{} is missing", where.empty() ? "" : where + ".", key)};
  return *at;
}

std::uint64_t number(const json& value, const std::string& where, std::uint64_t lowest,
                     std::uint64_t highest) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < lowest ||
      value.get<std::uint64_t>() > highest)
    throw Refused{fmt::format("{} must be a whole number from {} to {}", where, lowest, highest)};
  return value.get<std::uint64_t>();
}

std::string text(const json& value, const std::string& where) {
  constexpr std::size_t longest = 256;
  if (!value.is_string() || value.get_ref<const std::string&>().size() > longest)
    throw Refused{fmt::format("{} must be a string of at most {} characters", where, longest)};
  return value.get<std::string>();
}

Bytes bytes(const json& value, const std::string& where, std::size_t count) {
  const auto refuse = [&] {
    return Refused{fmt::format("{} must be {} hexadecimal digits", where, 2 * count)};
  };
  if (!value.is_string()) throw refuse();
  const auto& digits = value.get_ref<const std::string&>();
  if (digits.size() != 2 * count) throw refuse();
  const auto digit = [&](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    throw refuse();
  };
  Bytes result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<std::uint8_t>(16 * digit(digits[2 * i]) + digit(digits[2 * i + 1]));
  return result;
}

const json& list(const json& object, const char* key, std::size_t lowest, std::size_t highest) {
  const json& value = member(object, key, "");
  if (!value.is_array() || value.size() < lowest || value.size() > highest)
    throw Refused{lowest == highest ? fmt::format("{} must be a list of {}", key, lowest)
                                    : fmt::format("{} must be a list of {} to {}", key, lowest, highest)};
  return value;
}

gf::Matrix read_matrix(const json& file) {
  const json& rows = list(file, "matrix", 1, gf::max_chunks);
  const std::size_t digits = rows[0].is_string() ? rows[0].get_ref<const std::string&>().size() : 0;
  if (digits < 2 || digits % 2 != 0 || digits > 2 * gf::max_chunks)
    throw Refused{fmt::format("matrix[0] must be 2 to {} hexadecimal digits", 2 * gf::max_chunks)};
  gf::Matrix matrix(static_cast<unsigned>(rows.size()), static_cast<unsigned>(digits / 2));
  for (unsigned r = 0; r < matrix.rows(); ++r) {
    const Bytes row = bytes(rows[r], fmt::format("matrix[{}]", r), matrix.cols());
    for (unsigned c = 0; c < matrix.cols(); ++c) matrix(r, c) = row[c];
  }
  return matrix;
}

Reproducer::Piece read_piece(const json& object, const std::string& where, const char* name_of_bytes,
                             std::size_t count) {
  Reproducer::Piece piece;
  const json& residence = member(object, "residence", where);
  const auto residences = {Residence::pageable, Residence::pinned, Residence::device};
  const auto* found = std::ranges::find_if(
      residences, [&](Residence r) { return residence.is_string() && residence == kernels::name(r); });
  if (found == residences.end())
    throw Refused{fmt::format("{}.residence must be one of pageable, pinned, device", where)};
  piece.residence = *found;
  piece.misalignment = static_cast<unsigned>(
      number(member(object, "misalignment", where), where + ".misalignment", 0, page - 1));
  piece.bytes = bytes(member(object, name_of_bytes, where), where + "." + name_of_bytes, count);
  return piece;
}

Reproducer read(const json& file) {
  if (const auto found = number(member(file, "format", ""), "format", 0, 1'000'000); found != format)
    throw Refused{fmt::format("it is of format {}, and this version reads format {}", found, format)};
  Reproducer r;
  r.backend = text(member(file, "backend", ""), "backend");
  r.judge = text(member(file, "judge", ""), "judge");
  r.date = text(member(file, "date", ""), "date");
  r.cpu = text(member(file, "cpu", ""), "cpu");
  const std::string verb = text(member(file, "verb", ""), "verb");
  if (verb != "transform" && verb != "accumulate") throw Refused{"verb must be one of transform, accumulate"};
  r.accumulate = verb == "accumulate";
  r.matrix = read_matrix(file);
  r.chunk_bytes = number(member(file, "chunk_bytes", ""), "chunk_bytes", 1, longest_chunk);
  r.stripes = number(member(file, "stripes", ""), "stripes", 1, longest_chunk);
  const json& block = member(file, "block", "");
  r.block.bytes = number(member(block, "bytes", "block"), "block.bytes", 1,
                         std::min<std::uint64_t>(r.chunk_bytes, longest_block(r.matrix.rows())));
  r.block.offset = number(member(block, "offset", "block"), "block.offset", 0, r.chunk_bytes - r.block.bytes);
  const json& sources = list(file, "sources", r.matrix.cols(), r.matrix.cols());
  for (std::size_t i = 0; i < sources.size(); ++i)
    r.sources.push_back(read_piece(sources[i], fmt::format("sources[{}]", i), "bytes", r.block.bytes));
  const json& targets = list(file, "targets", r.matrix.rows(), r.matrix.rows());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string where = fmt::format("targets[{}]", i);
    Reproducer::Result target;
    target.got = read_piece(targets[i], where, "got", r.block.bytes);
    target.expected = bytes(member(targets[i], "expected", where), where + ".expected", r.block.bytes);
    if (r.accumulate)
      target.before = bytes(member(targets[i], "before", where), where + ".before", r.block.bytes);
    r.targets.push_back(std::move(target));
  }
  return r;
}

}  // namespace

Reproducer make_reproducer(std::string_view backend, std::string_view judge, bool accumulate,
                           std::size_t stripes, const BlockViews& views, const SavedTargets* before,
                           const std::uint8_t* got, const std::uint8_t* expected) {
  const kernels::Job& job = views.job();
  const auto [offset, count] = views.block();
  Reproducer r{std::string(backend),
               std::string(judge),
               {},
               this_machine().cpu,
               accumulate,
               job.program->matrix(),
               job.bytes,
               stripes,
               {offset, count},
               {},
               {}};
  r.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const auto copy = [count = count](const std::uint8_t* from) { return Bytes(from, from + count); };
  for (std::size_t i = 0; i < job.sources.size(); ++i)
    r.sources.push_back({job.sources[i].residence, misalignment(job.sources[i].data), copy(views.source(i))});
  for (std::size_t i = 0; i < job.targets.size(); ++i) {
    const auto& target = job.targets[i];
    r.targets.push_back({{target.residence, misalignment(target.data),
                          copy(got != nullptr ? got + i * count : views.target(i))},
                         copy(expected + i * count),
                         {}});
    if (before != nullptr) r.targets.back().before = copy(before->bytes.data() + i * job.bytes + offset);
  }
  return r;
}

std::string to_json(const Reproducer& r) {
  json matrix = json::array(), sources = json::array(), targets = json::array();
  for (unsigned row = 0; row < r.matrix.rows(); ++row) matrix.push_back(hex(r.matrix.row(row)));
  for (const auto& source : r.sources) sources.push_back(to_json(source, "bytes"));
  for (const auto& target : r.targets) {
    targets.push_back(to_json(target.got, "got"));
    targets.back()["expected"] = hex(target.expected);
    if (r.accumulate) targets.back()["before"] = hex(target.before);
  }
  const json file{{"format", format},     {"backend", r.backend},
                  {"judge", r.judge},     {"date", r.date},
                  {"cpu", r.cpu},         {"verb", r.accumulate ? "accumulate" : "transform"},
                  {"matrix", matrix},     {"chunk_bytes", r.chunk_bytes},
                  {"stripes", r.stripes}, {"block", {{"offset", r.block.offset}, {"bytes", r.block.bytes}}},
                  {"sources", sources},   {"targets", targets}};
  return file.dump(1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::optional<Reproducer> parse_reproducer(std::string_view text, std::string* why) {
  try {
    const json file = json::parse(text, nullptr, false);
    if (file.is_discarded()) throw Refused{"it is not JSON"};
    return read(file);
  } catch (const Refused& r) {
    *why = r.why;
  } catch (const json::exception&) {
    *why = "it is not JSON of the right form";
  }
  return std::nullopt;
}

std::string write_reproducer(const std::string& directory, const Reproducer& reproducer, std::string* why) {
  mkdir(directory.c_str(), 0700);
  support::Descriptor opened;
  std::vector<std::string> names;
  const std::string name = fmt::format("{}{}-{:%Y%m%dT%H%M%S}-{}.json", prefix, reproducer.backend,
                                       fmt::gmtime(std::time(nullptr)), getpid());
  int error = support::open_directory(directory, support::Trust::root_or_self, &opened, why);
  if (error == 0) {
    error = support::list_directory(opened.get(), &names);
    const auto of_ours = [](const std::string& each) { return each.starts_with(prefix); };
    if (error == 0 && std::ranges::count_if(names, of_ours) >= most_reproducers) {
      *why = fmt::format("{}: it holds {} of them already, which is all that are kept", directory,
                         most_reproducers);
      return {};
    }
    if (error == 0)
      error = support::write_new_file(opened.get(), name, to_json(reproducer), 0600, support::Sync::yes);
    if (error != 0) *why = fmt::format("it cannot be written to: {}", std::strerror(-error));
  }
  if (error == 0) return directory + "/" + name;
  *why = fmt::format("{}: {}", directory, *why);
  return {};
}

std::optional<Reproducer> read_reproducer(const std::string& path, std::string* why) {
  std::string text;
  if (support::read_file(AT_FDCWD, path, support::Trust::anyone, largest_reproducer, &text, why) != 0)
    return std::nullopt;
  return parse_reproducer(text, why);
}

}  // namespace ec::codec
