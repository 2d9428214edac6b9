// What a storage daemon does with an erasure-code plugin, on plain files: one file in, k+m shard files out,
// and back from any k of them. The plugin is loaded and called as a daemon does.
//
//   ec_demo backends
//   ec_demo encode --plugin-dir DIR --store STORE --file FILE [--stripe-unit BYTES] [--profile KEY=VALUE]...
//   ec_demo read   --plugin-dir DIR --store STORE --file FILE   the object, from the shards that are there
//   ec_demo repair --plugin-dir DIR --store STORE               the shards that are not there
//
// A store is a directory with shard.N files and object.json. Exit status: 0, 1 failure, 2 wrong usage.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/ec_demo/backend_report.hpp"
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

fs::path shard_file(const fs::path& store, int shard) { return store / fmt::format("shard.{}", shard); }

void save(const fs::path& store, const ObjectInfo& info) {
  const nlohmann::json json{
      {"profile", info.profile}, {"bytes", info.bytes}, {"stripe_unit", info.stripe_unit}};
  std::ofstream out(store / "object.json");
  out << json.dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error(fmt::format("cannot write {}/object.json", store.string()));
}

ObjectInfo load_info(const fs::path& store) {
  std::ifstream in(store / "object.json");
  if (!in) throw std::runtime_error(fmt::format("{} holds no object.json", store.string()));
  const auto json = nlohmann::json::parse(in);
  return {json.at("profile").get<ceph::ErasureCodeProfile>(), json.at("bytes").get<std::uint64_t>(),
          json.at("stripe_unit").get<unsigned>()};
}

std::shared_ptr<ceph::ErasureCodeInterface> make_code(const std::string& plugin_dir,
                                                      ceph::ErasureCodeProfile& profile) {
  std::ostringstream why;
  auto made = ec::host::PluginHost::instance().make("cuda", plugin_dir, profile, &why);
  if (!made) throw std::runtime_error(fmt::format("{} ({})", why.str(), std::strerror(-made.error)));
  return std::move(made.code);
}

void check(int result, const char* what) {
  if (result != 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(-result)));
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

void close_checked(std::ofstream& out, const std::string& what) {
  out.close();
  if (!out) throw std::runtime_error(fmt::format("cannot write {}", what));
}

/// Adds up the time that the plugin takes, files left out.
class Stopwatch {
 public:
  template <class Call>
  int operator()(Call&& call) {
    const auto begin = Clock::now();
    const int result = call();
    seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
    return result;
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
  const int shards = static_cast<int>(code->get_chunk_count());
  info.bytes = fs::file_size(file);
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("cannot read {}", file.string()));

  fs::create_directories(store);
  std::vector<std::ofstream> outs;
  std::set<int> all;
  for (int shard = 0; shard < shards; ++shard) {
    outs.emplace_back(shard_file(store, shard), std::ios::binary);
    all.insert(shard);
  }
  Stopwatch watch;
  std::uint64_t stripes = 0;
  for (std::uint64_t at = 0; at < info.bytes; at += width, ++stripes) {
    const bufferlist stripe = read_padded(in, width);
    std::map<int, bufferlist> chunks;
    check(watch([&] { return code->encode(all, stripe, &chunks); }), "encode");
    for (const auto& [shard, chunk] : chunks) write_to(outs[static_cast<std::size_t>(shard)], chunk);
  }
  for (int shard = 0; shard < shards; ++shard)
    close_checked(outs[static_cast<std::size_t>(shard)], shard_file(store, shard).string());
  save(store, info);
  fmt::print("{} bytes in {} stripes of {} x {} bytes, {} shards; {}\n", info.bytes, stripes,
             code->get_data_chunk_count(), info.stripe_unit, shards, watch.report(info.bytes));
}

/// The shards of a store that are still there.
std::set<int> shards_in(const fs::path& store, unsigned count) {
  std::set<int> there;
  for (int shard = 0; shard < static_cast<int>(count); ++shard)
    if (fs::exists(shard_file(store, shard))) there.insert(shard);
  return there;
}

/// Reads an object stripe by stripe, from as few shards as the code needs to make `want`.
class StripeReader {
 public:
  StripeReader(ceph::ErasureCodeInterface& code, const fs::path& store, const ObjectInfo& info,
               const std::set<int>& want)
      : chunk_bytes_(code.get_chunk_size(info.stripe_unit * code.get_data_chunk_count())) {
    const auto available = shards_in(store, code.get_chunk_count());
    std::map<int, std::vector<std::pair<int, int>>> minimum;
    if (code.minimum_to_decode(want, available, &minimum) != 0)
      throw std::runtime_error(fmt::format("{} of {} shards are there, which is too few", available.size(),
                                           code.get_chunk_count()));
    for (const auto& entry : minimum)
      files_.emplace(entry.first, std::ifstream(shard_file(store, entry.first), std::ios::binary));
  }

  std::map<int, bufferlist> next() {
    std::map<int, bufferlist> chunks;
    for (auto& [shard, file] : files_) {
      chunks[shard] = read_padded(file, chunk_bytes_);
      if (!file) throw std::runtime_error(fmt::format("shard {} is too short", shard));
    }
    return chunks;
  }
  std::set<int> shards() const {
    std::set<int> read;
    for (const auto& entry : files_) read.insert(entry.first);
    return read;
  }
  unsigned chunk_bytes() const { return chunk_bytes_; }

 private:
  unsigned chunk_bytes_;
  std::map<int, std::ifstream> files_;
};

void read_object(const std::string& plugin_dir, const fs::path& store, const fs::path& file) {
  ObjectInfo info = load_info(store);
  const auto code = make_code(plugin_dir, info.profile);
  const unsigned width = info.stripe_unit * code->get_data_chunk_count();
  std::set<int> data;
  for (int chunk = 0; chunk < static_cast<int>(code->get_data_chunk_count()); ++chunk) data.insert(chunk);

  StripeReader reader(*code, store, info, data);
  std::ofstream out(file, std::ios::binary);
  Stopwatch watch;
  for (std::uint64_t at = 0; at < info.bytes; at += width) {
    const auto chunks = reader.next();
    bufferlist stripe;
    check(watch([&] { return code->decode_concat(chunks, &stripe); }), "decode_concat");
    write_to(out, stripe, info.bytes - at);
  }
  close_checked(out, file.string());
  fmt::print("{} bytes read from shards {}; {}\n", info.bytes, fmt::join(reader.shards(), " "),
             watch.report(info.bytes));
}

void repair(const std::string& plugin_dir, const fs::path& store) {
  ObjectInfo info = load_info(store);
  const auto code = make_code(plugin_dir, info.profile);
  const unsigned width = info.stripe_unit * code->get_data_chunk_count();
  const auto there = shards_in(store, code->get_chunk_count());
  std::set<int> lost;
  for (int shard = 0; shard < static_cast<int>(code->get_chunk_count()); ++shard)
    if (!there.contains(shard)) lost.insert(shard);
  if (lost.empty()) {
    fmt::print("no shard is lost\n");
    return;
  }

  StripeReader reader(*code, store, info, lost);
  std::map<int, std::ofstream> outs;
  for (int shard : lost) outs.emplace(shard, std::ofstream(shard_file(store, shard), std::ios::binary));
  Stopwatch watch;
  for (std::uint64_t at = 0; at < info.bytes; at += width) {
    const auto chunks = reader.next();
    std::map<int, bufferlist> made;
    const auto chunk_bytes = static_cast<int>(reader.chunk_bytes());
    check(watch([&] { return code->decode(lost, chunks, &made, chunk_bytes); }), "decode");
    for (int shard : lost) write_to(outs.at(shard), made.at(shard));
  }
  for (auto& [shard, out] : outs) close_checked(out, shard_file(store, shard).string());
  fmt::print("shards {} made from shards {}; {}\n", fmt::join(lost, " "), fmt::join(reader.shards(), " "),
             watch.report(info.bytes));
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
  options::options_description description("ec_demo backends|encode|read|repair");
  auto add = description.add_options();
  add("help", "this text");
  add("command", options::value<std::string>(), "backends, encode, read or repair");
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
  if (command == "backends") {
    std::cout << ec::tools::backend_report();
  } else if (command == "encode") {
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

int main(int argc, char** argv) try { return run(argc, argv); } catch (const options::error& e) {
  std::cerr << "ec_demo: " << e.what() << '\n';
  return 2;
} catch (const UsageError& e) {
  std::cerr << "ec_demo: " << e.what() << '\n';
  return 2;
} catch (const std::exception& e) {
  std::cerr << "ec_demo: " << e.what() << '\n';
  return 1;
}
