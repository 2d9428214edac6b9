// Ceph's erasure-code interface of releases 16 to 19 ("classic"), as its daemons call it.
//
// Declared here from the shipped binaries: the virtual table of ErasureCodeInterface, read from the
// relocations of libec_isa.so, is the same in 16.2.15, 17.2.9, 18.2.7, 19.2.1 and 19.2.3. The order of the
// virtual functions IS the interface: slots 0 and 1 are the destructor, then one slot a function, in the
// order below. Ceph 20 ("tentacle") has another table; an object of this type must never be handed to it.
//
// Chunks are counted 0..k+m-1 in the maps of encode and decode ("shards": positions after the chunk mapping).
// Every int returned is 0 or -errno unless said otherwise.
#pragma once

#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rados/buffer.h"

class CrushWrapper;

namespace ceph {

using ErasureCodeProfile = std::map<std::string, std::string>;

class ErasureCodeInterface {
 public:
  virtual ~ErasureCodeInterface() = default;

  /// Takes the profile and writes every default back into it: the host refuses an object whose get_profile()
  /// differs from the profile it passed. The reason of a failure goes to *ss, which may be null.
  virtual int init(ErasureCodeProfile& profile, std::ostream* ss) = 0;
  virtual const ErasureCodeProfile& get_profile() const = 0;
  /// The id of a new rule called `name` in `crush`, or -errno with the reason in *ss.
  virtual int create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const = 0;
  virtual unsigned int get_chunk_count() const = 0;
  virtual unsigned int get_data_chunk_count() const = 0;
  virtual unsigned int get_coding_chunk_count() const = 0;
  virtual int get_sub_chunk_count() = 0;
  /// Bytes of one chunk of a stripe of `stripe_width` bytes, padding included.
  virtual unsigned int get_chunk_size(unsigned int stripe_width) const = 0;
  /// For each chunk to read, the (offset, count) of its sub-chunks; -EIO if `available` does not suffice.
  virtual int minimum_to_decode(const std::set<int>& want_to_read, const std::set<int>& available,
                                std::map<int, std::vector<std::pair<int, int>>>* minimum) = 0;
  /// The same with a cost for each available chunk.
  virtual int minimum_to_decode_with_cost(const std::set<int>& want_to_read,
                                          const std::map<int, int>& available, std::set<int>* minimum) = 0;
  /// Splits `in` over k chunks, pads the last, computes m more; *encoded gets the chunks in want_to_encode.
  virtual int encode(const std::set<int>& want_to_encode, const bufferlist& in,
                     std::map<int, bufferlist>* encoded) = 0;
  /// *encoded holds all k+m chunks of equal length; the coding ones are overwritten in place.
  virtual int encode_chunks(const std::set<int>& want_to_encode, std::map<int, bufferlist>* encoded) = 0;
  virtual int decode(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                     std::map<int, bufferlist>* decoded, int chunk_size) = 0;
  /// *decoded holds all k+m chunks of equal length; chunks that are not in `chunks` are overwritten in place.
  virtual int decode_chunks(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                            std::map<int, bufferlist>* decoded) = 0;
  virtual const std::vector<int>& get_chunk_mapping() const = 0;
  /// The data chunks in order, concatenated; padding is not removed.
  virtual int decode_concat(const std::map<int, bufferlist>& chunks, bufferlist* decoded) = 0;
};

using ErasureCodeInterfaceRef = std::shared_ptr<ErasureCodeInterface>;

/// The object that a plugin registers: a virtual table with two destructor slots and factory(), then the
/// handle that the host gets from dlopen.
class ErasureCodePlugin {
 public:
  void* library = nullptr;

  virtual ~ErasureCodePlugin() = default;
  /// Makes an object for `profile`. Called without the registry's lock, from any thread, once a placement
  /// group.
  virtual int factory(const std::string& directory, ErasureCodeProfile& profile,
                      ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) = 0;
};

/// The host's registry, without its data. Its lock is held by the caller while __erasure_code_init runs;
/// add() and get() do not take it, factory() does. Not every host exports the weak ones.
class __attribute__((visibility("default"))) ErasureCodePluginRegistry {
 public:
  [[gnu::weak]] int add(const std::string& name, ErasureCodePlugin* plugin);
  /// Null if no plugin of this name has registered.
  [[gnu::weak]] ErasureCodePlugin* get(const std::string& name);
  /// Loads the plugin unless it is loaded, and has it make an object.
  int factory(const std::string& name, const std::string& directory, ErasureCodeProfile& profile,
              ErasureCodeInterfaceRef* erasure_code, std::ostream* ss);

  static ErasureCodePluginRegistry singleton;
};
// The attribute has no effect on an object of a type that is not complete yet.
asm(".weak _ZN4ceph25ErasureCodePluginRegistry9singletonE");

}  // namespace ceph

extern "C" {
/// The host compares this with its own version string and answers -EXDEV if they differ.
__attribute__((visibility("default"))) const char* __erasure_code_version();
/// Registers the plugin under `plugin_name`; 0 or -errno.
__attribute__((visibility("default"))) int __erasure_code_init(char* plugin_name, char* directory);
}
