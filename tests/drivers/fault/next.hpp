// The library that this one stands in front of.
#pragma once

#include <initializer_list>
#include <string>

namespace ec::test::faults {

/// Opens what the environment variable `variable` names (an absolute path); without it the first of `names`,
/// in order of preference, that lies in a directory of LD_LIBRARY_PATH or where drivers and compilers are
/// usually installed, and is not the file of this library. Null, with the reason on stderr, if there is none.
void* open_next(const char* variable, std::initializer_list<const char*> names);

}  // namespace ec::test::faults
