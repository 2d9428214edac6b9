// The interface of Ceph 16 to 19 with one function more, after create_rule, as that of a later release may
// have it.
#pragma once

#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "ceph/classic.h"

namespace ec::test {

using ::ceph::bufferlist;
using ::ceph::ErasureCodeInterface;
using ::ceph::ErasureCodeInterfaceRef;
using ::ceph::ErasureCodeProfile;

/// Passes everything on to an object of the interface that we know.
class Shifted {
 public:
  explicit Shifted(ErasureCodeInterfaceRef of) : of_(std::move(of)) {}
  using Shards = std::set<int>;
  using Lists = std::map<int, bufferlist>;

  virtual ~Shifted() = default;
  virtual int init(ErasureCodeProfile& profile, std::ostream* ss) { return of_->init(profile, ss); }
  virtual const ErasureCodeProfile& get_profile() const { return of_->get_profile(); }
  virtual int create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const {
    return of_->create_rule(name, crush, ss);
  }
  virtual int create_rule(const std::string&, int, CrushWrapper&, std::ostream*) const { return -ENOTSUP; }
  virtual unsigned get_chunk_count() const { return of_->get_chunk_count(); }
  virtual unsigned get_data_chunk_count() const { return of_->get_data_chunk_count(); }
  virtual unsigned get_coding_chunk_count() const { return of_->get_coding_chunk_count(); }
  virtual int get_sub_chunk_count() { return of_->get_sub_chunk_count(); }
  virtual unsigned get_chunk_size(unsigned width) const { return of_->get_chunk_size(width); }
  virtual int minimum_to_decode(const Shards& want, const Shards& have,
                                std::map<int, std::vector<std::pair<int, int>>>* minimum) {
    return of_->minimum_to_decode(want, have, minimum);
  }
  virtual int minimum_to_decode_with_cost(const Shards& want, const std::map<int, int>& have,
                                          Shards* minimum) {
    return of_->minimum_to_decode_with_cost(want, have, minimum);
  }
  virtual int encode(const Shards& want, const bufferlist& in, Lists* encoded) {
    return of_->encode(want, in, encoded);
  }
  virtual int encode_chunks(const Shards& want, Lists* encoded) { return of_->encode_chunks(want, encoded); }
  virtual int decode(const Shards& want, const Lists& chunks, Lists* decoded, int bytes) {
    return of_->decode(want, chunks, decoded, bytes);
  }
  virtual int decode_chunks(const Shards& want, const Lists& chunks, Lists* decoded) {
    return of_->decode_chunks(want, chunks, decoded);
  }
  virtual const std::vector<int>& get_chunk_mapping() const { return of_->get_chunk_mapping(); }
  virtual int decode_concat(const Lists& chunks, bufferlist* decoded) {
    return of_->decode_concat(chunks, decoded);
  }

 private:
  ErasureCodeInterfaceRef of_;
};

/// A host keeps what a factory made by this type; who calls it knows better.
inline ErasureCodeInterfaceRef behind_classic(std::shared_ptr<Shifted> made) {
  return {made, reinterpret_cast<ErasureCodeInterface*>(made.get())};
}

}  // namespace ec::test
