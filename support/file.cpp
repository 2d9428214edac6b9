#include "support/file.hpp"

#include <cerrno>

namespace ec::codec {

int read_up_to(std::size_t most, int fd, std::string* text) {
  text->assign(most, '\0');
  std::size_t got = 0;
  while (got < most) {
    const ssize_t n = read(fd, text->data() + got, most - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text->resize(got);
  return 0;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

}  // namespace ec::codec
