// The door for Ceph 16 to 19.
#pragma once

#include "ceph/classic.h"
#include "plugin/ceph/door.hpp"

namespace ec::ceph {

class Classic final : public Door<::ceph::ErasureCodeInterface> {
 public:
  using Door::Door;
  const std::vector<int>& get_chunk_mapping() const override { return code_.mapping(); }
};

}  // namespace ec::ceph
