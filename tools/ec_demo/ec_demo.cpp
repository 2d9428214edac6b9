// What a storage daemon does with an erasure-code plugin, on plain files: one file in, k+m shard files out,
// and back from any k of them. The plugin is loaded and called as a daemon does.
//
//   ec_demo encode --plugin-dir DIR --store STORE --file FILE [--stripe-unit BYTES] [--profile KEY=VALUE]...
//   ec_demo read   --plugin-dir DIR --store STORE --file FILE   the object, from the shards that are there
//   ec_demo repair --plugin-dir DIR --store STORE               the shards that are not there
//
// A store is a directory with shard.N files and object.json. Exit status: 0, 1 failure, 2 wrong usage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/host/plugin_host.hpp"

namespace {

namespace fs = std::filesystem;
namespace options = boost::program_options;
using ceph::bufferlist;
using Clock = std::chrono::steady_clock;

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How an object was written; kept beside its shards.
struct ObjectInfo {
  ceph::ErasureCodeProfile profile;
  std::uint64_t bytes = 0;
  unsigned stripe_unit = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ObjectInfo, profile, bytes, stripe_unit)

fs::path shard_file(const fs::path& store, int shard) { return store / fmt::format("shard.{}", shard); }

void save(const fs::path& store, const ObjectInfo& info) {
  std::ofstream out(store / "object.json");
  out << nlohmann::json(info).dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error(fmt::format("cannot write {}/object.json", store.string()));
}

ObjectInfo load_info(const fs::path& store) {
  std::ifstream in(store / "object.json");
  if (!in) throw std::runtime_error(fmt::format("{} holds no object.json", store.string()));
  return nlohmann::json::parse(in).get<ObjectInfo>();
}

std::shared_ptr<ceph::ErasureCodeInterface> make_code(const std::string& plugin_dir,
                                                      ceph::ErasureCodeProfile& profile) {
  std::ostringstream why;
  auto made = ec::host::PluginHost::instance().make("cuda", plugin_dir, profile, &why);
  if (!made) throw std::runtime_error(fmt::format("{} ({})", why.str(), std::strerror(-made.error)));
  return std::move(made.code);
}

/// Reads up to `bytes`, and zeros for what the file lacks: a stripe is always whole.
bufferlist read_padded(std::istream& in, unsigned bytes) {
  std::string buffer(bytes, '\0');
  in.read(buffer.data(), static_cast<std::streamsize>(bytes));
  bufferlist list;
  list.append(buffer.data(), bytes);
  return list;
}

void write_to(std::ostream& out, const bufferlist& list, std::uint64_t limit = UINT64_MAX) {
  for (const auto& piece : list.buffers()) {
    const auto bytes = std::min<std::uint64_t>(piece.length(), limit);
    out.write(piece.c_str(), static_cast<std::streamsize>(bytes));
    limit -= bytes;
  }
}

template <class Stream>
std::map<int, Stream> open_shards(const fs::path& store, const std::set<int>& shards) {
  std::map<int, Stream> files;
  for (const int shard : shards) files.emplace(shard, Stream(shard_file(store, shard), std::ios::binary));
  return files;
}

void close_checked(std::ofstream& out, const fs::path& file) {
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}", file.string()));
}

std::set<int> first_chunks(unsigned count) {
  std::set<int> chunks;
  for (unsigned chunk = 0; chunk < count; ++chunk) chunks.insert(static_cast<int>(chunk));
  return chunks;
}

/// Makes calls of the plugin, and adds up the time that they take, files left out.
class Stopwatch {
 public:
  void operator()(const char* what, const std::function<int()>& call) {
    const auto begin = Clock::now();
    const int result = call();
    seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
    if (result != 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(-result)));
  }
  /// "9.1 ms in the plugin, 3.2 GB/s" for that many bytes of the object.
  std::string report(std::uint64_t bytes) const {
    return fmt::format("{:.3f} ms in the plugin, {:.2f} GB/s of object", seconds_ * 1e3,
                       seconds_ > 0 ? static_cast<double>(bytes) / seconds_ / 1e9 : 0.0);
  }

 private:
  double seconds_ = 0;
};

void encode(const std::string& plugin_dir, const fs::path& store, const fs::path& file, ObjectInfo info) {
  const auto code = make_code(plugin_dir, info.profile);
  const unsigned width = info.stripe_unit * code->get_data_chunk_count();
  const auto all = first_chunks(code->get_chunk_count());
  info.bytes = fs::file_size(file);
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("cannot read {}", file.string()));

  fs::create_directories(store);
  auto outs = open_shards<std::ofstream>(store, all);
  Stopwatch watch;
  std::uint64_t stripes = 0;
  for (std::uint64_t at = 0; at < info.bytes; at += width, ++stripes) {
    const bufferlist stripe = read_padded(in, width);
    std::map<int, bufferlist> chunks;
    watch("encode", [&] { return code->encode(all, stripe, &chunks); });
    for (const auto& [shard, chunk] : chunks) write_to(outs.at(shard), chunk);
  }
  for (auto& [shard, out] : outs) close_checked(out, shard_file(store, shard));
  save(store, info);
  fmt::print("{} bytes in {} stripes of {} x {} bytes, {} shards; {}\n", info.bytes, stripes,
             code->get_data_chunk_count(), info.stripe_unit, all.size(), watch.report(info.bytes));
}

/// The shards of a store that are still there.
std::set<int> shards_in(const fs::path& store, const ceph::ErasureCodeInterface& code) {
  auto shards = first_chunks(code.get_chunk_count());
  std::erase_if(shards, [&](int shard) { return !fs::exists(shard_file(store, shard)); });
  return shards;
}

/// Reads an object stripe by stripe, from as few shards as the code needs to make `want`, and hands the
/// chunks over with the place of the stripe in the object. Returns those shards in words.
std::string read_stripes(ceph::ErasureCodeInterface& code, const fs::path& store, const ObjectInfo& info,
                         const std::set<int>& want,
                         const std::function<void(const std::map<int, bufferlist>&, std::uint64_t)>& take) {
  const auto available = shards_in(store, code);
  std::map<int, std::vector<std::pair<int, int>>> minimum;
  if (code.minimum_to_decode(want, available, &minimum) != 0)
    throw std::runtime_error(
        fmt::format("{} of {} shards are there, which is too few", available.size(), code.get_chunk_count()));
  std::set<int> shards;
  for (const auto& entry : minimum) shards.insert(entry.first);
  auto files = open_shards<std::ifstream>(store, shards);
  const unsigned width = info.stripe_unit * code.get_data_chunk_count();
  for (std::uint64_t at = 0; at < info.bytes; at += width) {
    std::map<int, bufferlist> chunks;
    for (auto& [shard, file] : files) {
      chunks[shard] = read_padded(file, code.get_chunk_size(width));
      if (!file) throw std::runtime_error(fmt::format("shard {} is too short", shard));
    }
    take(chunks, at);
  }
  return fmt::format("{}", fmt::join(shards, " "));
}

void read_object(const std::string& plugin_dir, const fs::path& store, const fs::path& file) {
  ObjectInfo info = load_info(store);
  const auto code = make_code(plugin_dir, info.profile);
  std::ofstream out(file, std::ios::binary);
  Stopwatch watch;
  const auto shards =
      read_stripes(*code, store, info, first_chunks(code->get_data_chunk_count()),
                   [&](const auto& chunks, std::uint64_t at) {
                     bufferlist stripe;
                     watch("decode_concat", [&] { return code->decode_concat(chunks, &stripe); });
                     write_to(out, stripe, info.bytes - at);
                   });
  close_checked(out, file);
  fmt::print("{} bytes read from shards {}; {}\n", info.bytes, shards, watch.report(info.bytes));
}

void repair(const std::string& plugin_dir, const fs::path& store) {
  ObjectInfo info = load_info(store);
  const auto code = make_code(plugin_dir, info.profile);
  auto lost = first_chunks(code->get_chunk_count());
  for (const int shard : shards_in(store, *code)) lost.erase(shard);
  if (lost.empty()) {
    fmt::print("no shard is lost\n");
    return;
  }
  std::map<int, std::ofstream> outs;
  Stopwatch watch;
  const auto shards = read_stripes(*code, store, info, lost, [&](const auto& chunks, std::uint64_t) {
    // Not before the shards that are there have been found.
    if (outs.empty()) outs = open_shards<std::ofstream>(store, lost);
    std::map<int, bufferlist> made;
    const auto chunk_bytes = static_cast<int>(chunks.begin()->second.length());
    watch("decode", [&] { return code->decode(lost, chunks, &made, chunk_bytes); });
    for (const int shard : lost) write_to(outs.at(shard), made.at(shard));
  });
  if (info.bytes == 0) outs = open_shards<std::ofstream>(store, lost);
  for (auto& [shard, out] : outs) close_checked(out, shard_file(store, shard));
  fmt::print("shards {} made from shards {}; {}\n", fmt::join(lost, " "), shards, watch.report(info.bytes));
}

ceph::ErasureCodeProfile parse_profile(const std::vector<std::string>& pairs) {
  ceph::ErasureCodeProfile profile{{"plugin", "cuda"}};
  for (const auto& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos) throw UsageError(fmt::format("--profile {} is not KEY=VALUE", pair));
    profile[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return profile;
}

int run(int argc, char** argv) {
  options::options_description description("ec_demo encode|read|repair");
  auto add = description.add_options();
  add("help", "this text");
  add("command", options::value<std::string>(), "encode, read or repair");
  add("plugin-dir", options::value<std::string>(), "directory of libec_cuda.so");
  add("store", options::value<std::string>(), "directory of the shards");
  add("file", options::value<std::string>(), "encode: the object to code; read: where to put it");
  add("stripe-unit", options::value<unsigned>()->default_value(4096),
      "bytes of a chunk, a multiple of 32; Ceph's default is 4096");
  add("profile", options::value<std::vector<std::string>>()->default_value({}, ""),
      "KEY=VALUE, may be repeated");
  options::positional_options_description positional;
  positional.add("command", 1);
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(description).positional(positional).run(),
                 given);
  if (given.contains("help")) {
    std::cout << description;
    return 0;
  }
  const auto text = [&](const char* name) {
    if (!given.contains(name)) throw UsageError(fmt::format("{} is missing; see --help", name));
    return given[name].as<std::string>();
  };
  const std::string command = text("command");
  if (command == "encode") {
    const unsigned stripe_unit = given["stripe-unit"].as<unsigned>();
    if (stripe_unit == 0 || stripe_unit % 32 != 0 || stripe_unit > (1u << 24))
      throw UsageError("--stripe-unit must be a multiple of 32, at most 16777216");
    encode(text("plugin-dir"), text("store"), text("file"),
           {parse_profile(given["profile"].as<std::vector<std::string>>()), 0, stripe_unit});
  } else if (command == "read") {
    read_object(text("plugin-dir"), text("store"), text("file"));
  } else if (command == "repair") {
    repair(text("plugin-dir"), text("store"));
  } else {
    throw UsageError(fmt::format("unknown command {}; see --help", command));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& e) {
  std::cerr << "ec_demo: " << e.what() << '\n';
  const bool usage = dynamic_cast<const options::error*>(&e) || dynamic_cast<const UsageError*>(&e);
  return usage ? 2 : 1;
}
