// What `ec_bench ceph` runs: plugins behind Ceph's classic interface, several in this process.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "bench/common/random.hpp"
#include "bench/common/sweep.hpp"
#include "kernels/program.hpp"
#include "kernels/reference/reference.hpp"
#include "tools/host/plugin_host.hpp"

namespace ec::bench {
namespace {

using ceph::bufferlist;
using Chunks = std::map<int, bufferlist>;

/// A buffer as a network message leaves it: aligned to a page.
bufferlist make_object(std::size_t bytes, std::uint64_t seed) {
  ceph::bufferptr whole(ceph::buffer::create_aligned(static_cast<unsigned>(bytes), 4096));
  fill_random({reinterpret_cast<std::uint8_t*>(whole.c_str()), bytes}, seed);
  bufferlist object;
  object.append(whole);
  return object;
}

/// All k + m chunks of an object, made by the reference back end.
Chunks reference_chunks(const Case& c, const bufferlist& object) {
  const kernels::Program program(gf::coding_matrix(c.technique, c.k, c.m));
  Chunks chunks;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < c.k + c.m; ++i) {
    ceph::bufferptr buffer(ceph::buffer::create_aligned(static_cast<unsigned>(c.chunk_bytes), 4096));
    const std::size_t begin = std::min<std::size_t>(i * c.chunk_bytes, object.length());
    const std::size_t bytes = i < c.k ? std::min(object.length() - begin, c.chunk_bytes) : 0;
    std::memset(buffer.c_str(), 0, c.chunk_bytes);
    auto from = object.begin();
    from += static_cast<unsigned>(begin);
    from.copy(static_cast<unsigned>(bytes), buffer.c_str());
    auto* const data = reinterpret_cast<std::uint8_t*>(buffer.c_str());
    if (i < c.k)
      sources.push_back({data});
    else
      targets.push_back({data});
    chunks[static_cast<int>(i)].push_back(std::move(buffer));
  }
  if (kernels::reference_backend().transform({&program, sources, targets, c.chunk_bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("reference does not code the object");
  return chunks;
}

/// The objects of a case and, where it decodes, their surviving chunks.
struct Objects {
  explicit Objects(const Case& c) : what(c) {
    for (unsigned i = 0; i < c.k + c.m; ++i) all.insert(static_cast<int>(i));
    for (unsigned i = 0; i < c.erasures; ++i) lost.insert(static_cast<int>(i));
    for (std::size_t s = 0; s < c.threads; ++s) {
      objects.push_back(make_object(c.object_bytes, s * 1'000'003 + c.object_bytes));
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

/// Calls of one plugin on them.
class PluginCalls {
 public:
  PluginCalls(std::string plugin, ceph::ErasureCodeInterfaceRef code, std::shared_ptr<const Objects> objects)
      : plugin_(std::move(plugin)), code_(std::move(code)), objects_(std::move(objects)) {}

  /// What the call hands out: chunks by their index; of a read, the data as one.
  Chunks call(std::size_t stripe) const {
    const Case& c = objects_->what;
    Chunks out;
    const int answer = c.op == "encode"   ? code_->encode(objects_->all, objects_->objects[stripe], &out)
                       : c.op == "decode" ? code_->decode(objects_->lost, objects_->survivors[stripe], &out,
                                                          static_cast<int>(c.chunk_bytes))
                                          : code_->decode_concat(objects_->survivors[stripe], &out[0]);
    if (answer != 0)
      throw std::runtime_error(fmt::format("{}: {}: {}", plugin_, c.op, std::strerror(-answer)));
    return out;
  }

  /// Of a call of its own, for results are handed out and not left anywhere.
  bool right(std::size_t stripe) const {
    const Case& c = objects_->what;
    Chunks expected = reference_chunks(c, objects_->objects[stripe]);
    if (c.op == "decode")
      std::erase_if(expected, [&](const auto& e) { return !objects_->lost.contains(e.first); });
    if (c.op != "encode" && c.op != "decode") {
      bufferlist data;
      for (unsigned i = 0; i < c.k; ++i) data.append(expected.at(static_cast<int>(i)));
      expected = {{0, data}};
    }
    const Chunks made = call(stripe);
    return std::ranges::all_of(expected, [&](const auto& chunk) {
      return made.contains(chunk.first) && made.at(chunk.first).contents_equal(chunk.second);
    });
  }

 private:
  std::string plugin_;
  ceph::ErasureCodeInterfaceRef code_;
  std::shared_ptr<const Objects> objects_;
};

ceph::ErasureCodeInterfaceRef make_code(const std::string& name, const std::string& directory,
                                        const Case& c) {
  ceph::ErasureCodeProfile profile{{"plugin", name},
                                   {"technique", std::string(gf::name(c.technique))},
                                   {"k", std::to_string(c.k)},
                                   {"m", std::to_string(c.m)}};
  std::ostringstream why;
  const auto made = host::PluginHost::instance().make(name, directory, profile, &why);
  if (!made) throw UsageError(fmt::format("--plugin {}={}: {} ({})", name, directory, why.str(), made.error));
  if (const auto size = made.code->get_chunk_size(static_cast<unsigned>(c.object_bytes));
      size != c.chunk_bytes)
    throw std::runtime_error(fmt::format("{}: chunks of {} bytes, expected {}", name, size, c.chunk_bytes));
  return made.code;
}

/// Whether an ISA-L stands in front of that of the plugins, other than one that the user has put there by
/// LD_PRELOAD.
bool exposes_isal() {
  void* const function = dlsym(RTLD_DEFAULT, "ec_encode_data");
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0) return function != nullptr;
  const char* preloads = std::getenv("LD_PRELOAD");
  return preloads == nullptr || std::strstr(preloads, info.dli_fname) == nullptr;
}

/// plugins: NAME, or NAME=DIRECTORY where libec_NAME.so is not in its usual place.
std::vector<SweepContestant> line_up(const std::vector<std::string>& plugins, const Case& c) {
  if (exposes_isal())
    throw std::runtime_error("this program exposes an ISA-L, which would replace that of the plugins");
  const auto objects = std::make_shared<const Objects>(c);
  std::vector<SweepContestant> list;
  for (const auto& text : plugins) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string usual = name == "cuda" ? EC_PLUGIN_DIR : EC_STOCK_PLUGIN_DIR;
    const std::string directory = equals == std::string::npos ? usual : text.substr(equals + 1);
    const auto calls = std::make_shared<const PluginCalls>(name, make_code(name, directory, c), objects);
    list.push_back({{.name = name,
                     .threads = c.threads,
                     .run = [calls](std::size_t stripe) { calls->call(stripe); },
                     .right = [calls](std::size_t stripe) { return calls->right(stripe); }},
                    "pageable"});
  }
  return list;
}

}  // namespace
}  // namespace ec::bench

int main(int argc, char** argv) {
  using namespace ec::bench;
  return run_sweep({.name = "ceph",
                    .contestants_option = "plugin",
                    .contestants_default = "cuda,isa",
                    .contestants_help = "plugins, NAME or NAME=DIRECTORY of libec_NAME.so",
                    .ops = {"encode", "decode", "read", "degraded-read"},
                    .baseline = "isa",
                    .host_version = "Ceph " + ec::host::PluginHost::version(),
                    .line_up = line_up},
                   {argv + 1, argv + argc});
}
