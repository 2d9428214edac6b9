// The result of gf::identify, as the text that the C interface hands out.
#pragma once

#include <span>
#include <string>

#include "ec/ec.h"

namespace ec::library {

/// JSON, as ec/ec.h says. Throws Refusal, std::bad_alloc.
std::string identify(std::span<const ec_source> shards, std::size_t bytes);

}  // namespace ec::library
