// Files that others read at any time: whole or not there.
#pragma once

#include <string>
#include <string_view>

namespace ec::codec {

/// Puts `text` in the place of the file `path`, mode 0644 whatever the umask is: written beside it as
/// "<path>.<PID>.tmp" and renamed. 0 or -errno; on an error `path` is as it was, and nothing is left beside
/// it.
int replace_file(const std::string& path, std::string_view text);

}  // namespace ec::codec
