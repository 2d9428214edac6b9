// The pools of plugin=cuda that Ceph's own plugins can take over at any time. Knows no host, so that tools
// may ask.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gf/generator.hpp"

namespace ec::ceph {

/// The limit of Ceph 20's own plugins. Ceph numbers shards by an int8_t: OSDs of 20 abort at a pool of 128
/// chunks, and OSDs of older releases find no shard from 128 on.
constexpr unsigned most_pool_shards = 127;

/// The plugin of Ceph's own that codes the pools of a profile, in every release from 16 on, to the same bytes
/// as plugin=cuda.
struct Portability {
  std::string plugin;     ///< "isa" or "jerasure"; empty: none
  std::string technique;  ///< the plugin's name for it
  std::string why_not;    ///< where no plugin does: key and value, and the limits of Ceph's own plugins

  explicit operator bool() const { return !plugin.empty(); }
};

/// profile: of plugin=cuda, with or without its defaults. Only technique, k, m and mapping count; all other
/// keys change no byte.
Portability portability(const std::map<std::string, std::string>& profile);

/// Empty if Ceph's isa codes this shape in every release, else the sentence that names the number that is out
/// of range. technique: reed_sol_van or cauchy. Before Ceph 20 isa takes more coding chunks with cauchy.
std::string isa_shape_error(gf::Technique technique, unsigned k, unsigned m);

/// Whether a mapping, as "DD_D_", has a chunk at another position than its own.
bool moves_chunks(std::string_view mapping) noexcept;

}  // namespace ec::ceph
