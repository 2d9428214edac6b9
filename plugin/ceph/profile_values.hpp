// How keys of a profile are read and refused, in every role.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "ceph/classic.h"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::ceph {

/// Throws codec::SetupError(code) with the sentence.
template <class... Values>
[[noreturn]] void refuse(int code, fmt::format_string<Values...> sentence, Values&&... values) {
  throw codec::SetupError(code, fmt::format(sentence, std::forward<Values>(values)...));
}

/// The value of `key`; an absent or empty one becomes the default, as in Ceph's own plugins.
inline const std::string& value_of(::ceph::ErasureCodeProfile& profile, const char* key,
                                   const char* fallback) {
  std::string& value = profile[key];
  if (value.empty()) value = fallback;
  return value;
}

}  // namespace ec::ceph
