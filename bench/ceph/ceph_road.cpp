#include "bench/ceph/ceph_road.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>

#include "bench/common/oracle.hpp"
#include "bench/common/pool.hpp"
#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"
#include "tools/host/plugin_host.hpp"

namespace ec::bench {
namespace {

using ceph::bufferlist;
using Chunks = std::map<int, bufferlist>;

/// A buffer as a network message leaves it: aligned to a page when it is the whole object.
bufferlist make_object(std::size_t bytes, unsigned pieces, std::uint64_t seed) {
  bufferlist object;
  for (unsigned i = 0; i < pieces; ++i) {
    const std::size_t size = bytes * (i + 1) / pieces - bytes * i / pieces;
    if (size == 0) continue;
    const unsigned offset = pieces == 1 ? 0 : 2 * i + 1;
    ceph::bufferptr whole(ceph::buffer::create_aligned(static_cast<unsigned>(offset + size), 4096));
    fill_random({reinterpret_cast<std::uint8_t*>(whole.c_str()), offset + size}, seed + i);
    object.append(ceph::bufferptr(whole, offset, static_cast<unsigned>(size)));
  }
  return object;
}

bufferlist one_buffer(const void* bytes, std::size_t size) {
  ceph::bufferptr buffer(ceph::buffer::create_aligned(static_cast<unsigned>(size), 4096));
  std::memcpy(buffer.c_str(), bytes, size);
  bufferlist list;
  list.push_back(std::move(buffer));
  return list;
}

/// All k + m chunks of an object, made by the reference back end.
Chunks reference_chunks(const Case& c, const bufferlist& object) {
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  std::vector<std::uint8_t> data(c.k * c.chunk_bytes);
  object.begin().copy(object.length(), reinterpret_cast<char*>(data.data()));
  std::vector<std::uint8_t> coding(c.m * c.chunk_bytes);
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k; ++i) sources.push_back({data.data() + i * c.chunk_bytes});
  for (unsigned i = 0; i < c.m; ++i) targets.push_back({coding.data() + i * c.chunk_bytes});
  const auto made = judged(kernels::reference_backend(), {&program, sources, targets, c.chunk_bytes}, false);
  Chunks chunks;
  for (unsigned i = 0; i < c.k; ++i) chunks[static_cast<int>(i)] = one_buffer(sources[i].data, c.chunk_bytes);
  for (unsigned i = 0; i < c.m; ++i)
    chunks[static_cast<int>(c.k + i)] = one_buffer(made[i].data(), c.chunk_bytes);
  return chunks;
}

/// The objects of a case and, where it decodes, their surviving chunks.
struct Work {
  explicit Work(const Case& c) : what(c) {
    for (unsigned i = 0; i < c.k + c.m; ++i) all.insert(static_cast<int>(i));
    for (unsigned i = 0; i < c.erasures; ++i) lost.insert(static_cast<int>(i));
    for (std::size_t s = 0; s < c.stripes; ++s) {
      objects.push_back(make_object(c.object_bytes, c.pieces, s * 1'000'003 + c.object_bytes));
      if (c.op == "encode") continue;
      Chunks& left = survivors.emplace_back(reference_chunks(c, objects.back()));
      for (int chunk : lost) left.erase(chunk);
    }
  }

  Case what;
  std::set<int> all;
  std::set<int> lost;
  std::vector<bufferlist> objects;
  std::vector<Chunks> survivors;
};

class CephContestant final : public Contestant {
 public:
  CephContestant(std::string plugin, ceph::ErasureCodeInterfaceRef code, std::shared_ptr<const Work> work)
      : plugin_(std::move(plugin)), code_(std::move(code)), work_(std::move(work)) {}

  std::string name() const override { return plugin_; }
  std::string path() const override { return "pageable"; }
  std::string verified_against() const override { return "reference"; }

  void run(std::size_t stripe) override {
    if (work_->what.op == "encode")
      encode(stripe);
    else if (work_->what.op == "decode")
      decode(stripe);
    else
      read(stripe);
  }

  bool verify(std::size_t stripe) override {
    const Chunks expected = reference_chunks(work_->what, work_->objects[stripe]);
    if (work_->what.op == "encode") return holds(encode(stripe), expected, work_->all);
    if (work_->what.op == "decode") return holds(decode(stripe), expected, work_->lost);
    bufferlist data;
    for (unsigned c = 0; c < work_->what.k; ++c) data.append(expected.at(static_cast<int>(c)));
    return read(stripe).contents_equal(data);
  }

 private:
  Chunks encode(std::size_t stripe) {
    Chunks out;
    check(code_->encode(work_->all, work_->objects[stripe], &out));
    return out;
  }
  Chunks decode(std::size_t stripe) {
    Chunks out;
    check(code_->decode(work_->lost, work_->survivors[stripe], &out,
                        static_cast<int>(work_->what.chunk_bytes)));
    return out;
  }
  bufferlist read(std::size_t stripe) {
    bufferlist out;
    check(code_->decode_concat(work_->survivors[stripe], &out));
    return out;
  }

  void check(int answer) const {
    if (answer != 0)
      throw std::runtime_error(fmt::format("{}: {}: {}", plugin_, work_->what.op, std::strerror(-answer)));
  }

  static bool holds(const Chunks& chunks, const Chunks& expected, const std::set<int>& wanted) {
    for (int c : wanted) {
      const auto at = chunks.find(c);
      if (at == chunks.end() || !at->second.contents_equal(expected.at(c))) return false;
    }
    return true;
  }

  std::string plugin_;
  ceph::ErasureCodeInterfaceRef code_;
  std::shared_ptr<const Work> work_;
};

class CephRoad final : public Road {
 public:
  explicit CephRoad(const std::vector<std::string>& plugins) {
    if (dlsym(RTLD_DEFAULT, "ec_encode_data") != nullptr)
      throw std::runtime_error("this program exposes an ISA-L, which would replace that of the plugins");
    for (const auto& text : plugins) {
      const std::size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      const std::string usual = name == "cuda" ? EC_PLUGIN_DIR : EC_STOCK_PLUGIN_DIR;
      plugins_.emplace_back(name, equals == std::string::npos ? usual : text.substr(equals + 1));
    }
  }

  std::vector<std::unique_ptr<Contestant>> line_up(const Case& c) override {
    const auto work = std::make_shared<const Work>(c);
    std::vector<std::unique_ptr<Contestant>> list;
    for (const auto& [name, directory] : plugins_)
      list.push_back(std::make_unique<CephContestant>(name, make_code(name, directory, c), work));
    return list;
  }
  std::string baseline() const override { return "isa"; }

 private:
  static ceph::ErasureCodeInterfaceRef make_code(const std::string& name, const std::string& directory,
                                                 const Case& c) {
    ceph::ErasureCodeProfile profile{{"plugin", name},
                                     {"technique", std::string(gf::name(c.technique))},
                                     {"k", std::to_string(c.k)},
                                     {"m", std::to_string(c.m)}};
    std::ostringstream why;
    const auto made = host::PluginHost::instance().make(name, directory, profile, &why);
    if (!made)
      throw UsageError(fmt::format("--plugin {}={}: {} ({})", name, directory, why.str(), made.error));
    if (const auto size = made.code->get_chunk_size(static_cast<unsigned>(c.object_bytes));
        size != c.chunk_bytes)
      throw std::runtime_error(fmt::format("{}: chunks of {} bytes, expected {}", name, size, c.chunk_bytes));
    return made.code;
  }

  std::vector<std::pair<std::string, std::string>> plugins_;
};

}  // namespace

Subcommand ceph_subcommand() {
  return {.name = "ceph",
          .contestants_option = "plugin",
          .contestants_default = "cuda,isa",
          .contestants_help = "plugins, NAME or NAME=DIRECTORY of libec_NAME.so",
          .ops = {"encode", "decode", "read", "degraded-read"}};
}

std::unique_ptr<Road> make_ceph_road(const std::vector<std::string>& plugins) {
  return std::make_unique<CephRoad>(plugins);
}

std::string ceph_version() { return host::PluginHost::version(); }

}  // namespace ec::bench
