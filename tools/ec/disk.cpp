#include "tools/ec/disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <list>
#include <mutex>
#include <random>
#include <set>

#include "tools/ec/failure.hpp"

namespace ec::file {
namespace {

constexpr const char* prefix = ".ec-";
constexpr const char* suffix = ".tmp";

volatile std::sig_atomic_t interrupt = 0;
bool bad_sectors_are_lost = false;

[[noreturn]] void fail_errno(const char* what, const std::string& path) {
  const int error = errno;
  fail(Status::failure, "{} cannot be {}: {}", printable(path), what, std::strerror(error));
}

std::string temporary_name() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{}", prefix, random(), random(), suffix);
}

/// Opens what an inner path leads to; no name on it may be a link. None: errno says why.
support::Descriptor open_inner(int directory, const std::string& path, int flags) {
  support::Descriptor parent;
  std::size_t begin = 0;
  for (std::size_t slash; (slash = path.find('/', begin)) != std::string::npos; begin = slash + 1) {
    const auto name = path.substr(begin, slash - begin);
    support::Descriptor next(openat(parent ? parent.get() : directory, name.c_str(),
                                    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return next;
    parent = std::move(next);
  }
  return support::Descriptor(
      openat(parent ? parent.get() : directory, path.c_str() + begin, flags | O_NOFOLLOW | O_CLOEXEC));
}

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// Whether there is nothing of that name, nor anything in the place of a directory.
bool is_nothing() { return errno == ENOENT || errno == ENOTDIR; }

/// Whether the call failed because the file system has no such call; NFS has few.
bool is_unsupported() { return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP; }

}  // namespace

/// A new file or directory, which is removed unless it is kept, also where the program is interrupted. The
/// name is noted before anything has it.
class Temporary {
 public:
  /// flags: of unlinkat.
  Temporary(Place place_, std::string name_, int flags)
      : place(std::move(place_)), name(std::move(name_)), flags_(flags) {
    const std::lock_guard lock(mutex);
    at_ = all.insert(all.end(), this);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    remove();
    const std::lock_guard lock(mutex);
    all.erase(at_);
  }
  void remove() const noexcept {
    if (is_made) unlinkat(place->fd_or_none(), name.c_str(), flags_);
  }

  const Place place;
  const std::string name;
  bool is_made = false;

  static inline std::mutex mutex;
  static inline std::list<Temporary*> all;  ///< as they were made: what is in a directory comes after it

 private:
  const int flags_;
  std::list<Temporary*>::iterator at_;
};

void take_bad_sectors_for_lost() { bad_sectors_are_lost = true; }

std::size_t read_stream(std::span<std::byte> bytes) {
  std::size_t got = 0;
  while (got < bytes.size()) {
    const auto n = read(STDIN_FILENO, bytes.data() + got, bytes.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", "standard input");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

void write_stream(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("written", "standard output");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

class Opened {
 public:
  Opened(Place place_, std::string name_, int flags_)
      : place(std::move(place_)), name(std::move(name_)), flags(flags_) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    const std::lock_guard lock(mutex);
    is_open.erase(this);
  }

  bool is_directory() const { return (flags & O_DIRECTORY) != 0; }
  std::string path() const { return place ? place->path_of(name) : name; }

  /// What is looked at is what is opened, so that no device and no pipe is. None: errno says why.
  support::Descriptor open_once() {
    struct stat st {};
    const support::Descriptor found = place ? open_inner(place->fd(), name, O_PATH)
                                            : support::Descriptor(::open(name.c_str(), O_PATH | O_CLOEXEC));
    if (!found || fstat(found.get(), &st) != 0) return support::Descriptor();
    const bool is_right = is_directory() ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
    if (!is_right || (is_known && !is_same(st, opened))) {
      errno = is_known ? ESTALE : S_ISLNK(st.st_mode) ? ELOOP : EINVAL;
      return support::Descriptor();
    }
    if (!is_known) opened = st;
    is_known = true;
    const auto path = fmt::format("/proc/self/fd/{}", found.get());
    // Without waiting for the holder of a lease.
    return support::Descriptor(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC));
  }

  /// None: errno says why.
  std::shared_ptr<support::Descriptor> descriptor() {
    const std::lock_guard lock(mutex);
    if (fd) return fd;
    if (is_open.size() >= most_open) close_all();
    auto now = open_once();
    if (!now && (errno == EMFILE || errno == ENFILE) && !is_open.empty()) {
      close_all();
      now = open_once();
    }
    if (!now) return nullptr;
    fd = std::make_shared<support::Descriptor>(std::move(now));
    is_open.insert(this);
    return fd;
  }

  std::shared_ptr<support::Descriptor> must_have() {
    auto there = descriptor();
    if (!there && errno == ESTALE) fail(Status::failure, "{} is another file than it was", printable(path()));
    if (!there && errno == EINVAL)
      fail(Status::failure, "{} is not a {}", printable(path()),
           is_directory() ? "directory" : "regular file");
    if (!there) fail_errno("opened", path());
    return there;
  }

  static void close_all() {
    for (auto* each : is_open) each->fd = nullptr;
    is_open.clear();
  }

  const Place place;
  const std::string name;
  const int flags;
  bool is_known = false;
  struct stat opened {};
  std::shared_ptr<support::Descriptor> fd;

  static inline std::recursive_mutex mutex;  ///< the directory may have to be opened first
  static inline std::set<Opened*> is_open;
  /// What is left is for directories that were named, and for what a library opens.
  static inline const auto most_open = static_cast<std::size_t>(std::max(sysconf(_SC_OPEN_MAX) - 24, 4L));
};

std::shared_ptr<const Directory> Directory::find(const std::string& path) {
  support::Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!fd && errno == ENOTDIR && lstat(path.c_str(), &st) == 0) {
    if (!S_ISLNK(st.st_mode)) return {};
    fail(Status::failure, "{0} is a link: name what it leads to, or write {0}/ for a directory",
         printable(path));
  }
  if (!fd || fstat(fd.get(), &st) != 0) fail_errno("opened", path);
  return Place(new Directory(path, Held(std::make_shared<support::Descriptor>(std::move(fd))), nullptr, st));
}

std::shared_ptr<const Directory> Directory::open(const std::string& path) {
  auto place = find(path);
  if (!place) fail(Status::failure, "{} is not a directory", printable(path));
  return place;
}

std::shared_ptr<const Directory> Directory::open_in(const Place& base, const std::string& path) {
  if (path.empty()) return base;
  auto opened = std::make_shared<Opened>(base, path, O_RDONLY | O_DIRECTORY);
  opened->must_have();
  const struct stat st = opened->opened;
  return Place(new Directory(base->path_of(path), Held(), std::move(opened), st));
}

Held Directory::fd() const { return opened_ ? Held(opened_->must_have()) : fd_; }

Held Directory::fd_or_none() const noexcept {
  try {
    return fd();
  } catch (const std::exception&) {
    return {};
  }
}

std::string Directory::path_of(const std::string& name) const {
  if (path_ == ".") return name;
  return path_.ends_with('/') ? path_ + name : path_ + "/" + name;
}

std::optional<struct stat> Directory::look(const std::string& name) const {
  struct stat st {};
  const auto found = open_inner(fd(), name, O_PATH);
  if (found && fstat(found.get(), &st) == 0) return st;
  if (!is_nothing()) fail_errno("looked at", path_of(name));
  return {};
}

std::vector<std::string> Directory::names() const {
  std::vector<std::string> names;
  errno = -support::list_directory(fd(), &names);
  if (errno != 0) fail_errno("read", path_);
  std::ranges::sort(names);
  return names;
}

void Directory::sync() const {
  // There are file systems whose directories have nothing to write.
  if (fsync(fd()) != 0 && errno != EINVAL) fail_errno("written", path_);
}

void Directory::lock() const {
  if (flock(fd(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK)
    fail(Status::failure, "another ec is at work in {}; wait for its end", printable(path_));
  if (errno != EBADF && errno != ENOLCK && !is_unsupported()) fail_errno("locked", path_);
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// --- Files.

File::File(Place place, const std::string& name)
    : state_(std::make_shared<Opened>(std::move(place), name, O_RDONLY)) {
  state_->must_have();
}

std::optional<File> File::find(const Place& place, const std::string& name, std::string* denied) {
  auto state = std::make_shared<Opened>(place, name, O_RDONLY);
  const auto fd = state->descriptor();
  if (!fd && (is_nothing() || errno == EINVAL || errno == ELOOP)) return {};
  if (!fd && (errno == EACCES || errno == EAGAIN)) {
    const char* const why = errno == EACCES ? std::strerror(EACCES) : "a process has a lease on it";
    if (denied != nullptr) *denied = fmt::format("{} cannot be opened: {}", printable(state->path()), why);
    return {};
  }
  if (!fd) fail_errno("opened", state->path());
  return File(state);
}

const struct stat& File::opened() const { return state_->opened; }
std::string File::path() const { return state_->path(); }

void File::check_unchanged() const {
  const auto fd = state_->must_have();
  struct stat st {};
  if (fstat(fd->get(), &st) != 0) fail_errno("looked at", state_->path());
  const auto& before = opened();
  if (st.st_size != before.st_size || st.st_mtim.tv_sec != before.st_mtim.tv_sec ||
      st.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
    fail(Status::failure, "{} changed while it was read", printable(state_->path()));
}

std::size_t File::read_at(std::span<std::byte> bytes, std::uint64_t offset) const {
  const auto fd = state_->must_have();
  std::size_t got = 0;
  while (got < bytes.size()) {
    const auto n = pread(fd->get(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EIO && bad_sectors_are_lost) break;
    if (n < 0 && errno == EIO)
      fail(Status::failure,
           "{} cannot be read at byte {}: {}; if it is the disk, --bad-sectors takes such blocks for lost",
           printable(state_->path()), offset + got, std::strerror(EIO));
    if (n < 0) fail_errno("read", state_->path());
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

// --- What is new.

std::shared_ptr<Temporary> make_directory(const Place& parent, const std::string& name) {
  auto made = std::make_shared<Temporary>(parent, name, AT_REMOVEDIR);
  made->is_made = mkdirat(parent->fd(), name.c_str(), 0700) == 0;
  // A default ACL, which replaces the umask, may deny the owner. Not every file system has modes.
  const auto fd =
      made->is_made ? open_inner(parent->fd(), name, O_PATH | O_DIRECTORY) : support::Descriptor();
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 ||
      ((st.st_mode & 0700) != 0700 && chmod(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), 0700) != 0))
    fail_errno("made", parent->path_of(name));
  return made;
}

void keep(std::shared_ptr<Temporary>* one) noexcept {
  (*one)->is_made = false;
  one->reset();
}

NewFile::NewFile(Place place, mode_t mode)
    : place_(std::move(place)),
      temporary_(std::make_shared<Temporary>(place_, temporary_name(), 0)),
      file_(std::make_shared<Opened>(place_, temporary_->name, O_RDWR)) {
  const support::Descriptor made(openat(place_->fd(), temporary_->name.c_str(),
                                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777));
  if (!made) fail_errno("written to", place_->path_of(""));
  temporary_->is_made = true;
  // Opened again it must be this one.
  if (fstat(made.get(), &file_.state_->opened) != 0) fail_errno("looked at", path());
  file_.state_->is_known = true;
  mode_ = file_.opened().st_mode & 0777;
  if (!is_writable() && fchmod(made.get(), mode_ | 0600) != 0) fail_errno("written to", path());
}

std::string NewFile::path() const { return place_->path_of(temporary_->name); }

void NewFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto fd = file_.state_->must_have();
  int result = 0;  // SA_RESTART does not hold for this call
  do result = fallocate(fd->get(), 0, 0, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    fail_errno(fmt::format("{} bytes long", bytes).c_str(), path());
}

void NewFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (is_zero(bytes)) return;
  const auto fd = file_.state_->must_have();
  while (!bytes.empty()) {
    const auto n = pwrite(fd->get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("written", path());
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void NewFile::sync(std::uint64_t bytes, const struct stat* like, const Attributes* attributes) {
  const auto fd = file_.state_->must_have();
  struct stat st {};
  bool is_right = fstat(fd->get(), &st) == 0;
  if (is_right && static_cast<std::uint64_t>(st.st_size) < bytes)
    is_right = ftruncate(fd->get(), static_cast<off_t>(bytes)) == 0;
  if (is_right && (like != nullptr || attributes != nullptr || !is_writable())) {
    mode_t mode = (like != nullptr ? like->st_mode : attributes != nullptr ? attributes->mode : mode_) & 0777;
    const bool is_owners = like == nullptr || (st.st_uid == like->st_uid && st.st_gid == like->st_gid) ||
                           fchown(fd->get(), like->st_uid, like->st_gid) == 0;
    if (!is_owners && errno != EPERM) fail_errno("written", path());
    // Another group gets what everybody has.
    if (!is_owners) mode &= ~mode_t{070} | (mode & 07) << 3;
    is_right = fchmod(fd->get(), mode) == 0;
  }
  if (is_right && attributes != nullptr) {
    const struct timespec times[] = {{0, UTIME_OMIT}, attributes->changed};
    is_right = futimens(fd->get(), times) == 0;
  }
  if (!is_right || fsync(fd->get()) != 0) fail_errno("written", path());
}

void NewFile::put(const std::string& name, const std::optional<struct stat>& old, const std::string& aside) {
  name_ = name;
  aside_ = aside;
  if (!old) {
    rename_to_free(*place_, temporary_->name, *place_, name_);
    file::keep(&temporary_);
    return;
  }
  const Held fd = place_->fd();
  // After a rename nothing needs memory, so that it can be undone.
  std::string exchanged = temporary_->name, beside = temporary_name(), renamed = aside_;
  // First a second name, so that the old file has one at any time. Not every file can have two.
  if (!aside_.empty()) has_link_ = linkat(fd, name_.c_str(), fd, aside_.c_str(), 0) == 0;
  if (!aside_.empty() && !has_link_ && errno != EPERM && errno != EMLINK && !is_unsupported())
    fail_errno("made", place_->path_of(aside_));
  if (renameat2(fd, exchanged.c_str(), fd, name_.c_str(), RENAME_EXCHANGE) == 0) {
    old_ = std::move(exchanged);
  } else if (is_unsupported()) {
    rename_to_free(*place_, name_, *place_, beside);
    old_ = std::move(beside);
    rename_to_free(*place_, exchanged, *place_, name_);
  } else {
    fail_errno("replaced", place_->path_of(name_));
  }
  file::keep(&temporary_);
  // Another file may have been put there meanwhile.
  const auto found = place_->look(old_);
  if (!found || !is_same(*found, *old))
    fail(Status::failure, "{} is another file than it was; it stays", printable(place_->path_of(name_)));
  if (aside_.empty() || has_link_) return;
  rename_to_free(*place_, old_, *place_, aside_);
  old_ = std::move(renamed);
}

void NewFile::keep() noexcept {
  if (!old_.empty() && old_ != aside_) unlinkat(place_->fd_or_none(), old_.c_str(), 0);
  for (auto* name : {&name_, &old_, &aside_}) name->clear();
  has_link_ = false;
}

NewFile::~NewFile() {
  if (!place_) return;
  const Held fd = place_->fd_or_none();
  struct stat st {};
  const bool is_there = !name_.empty() && fstatat(fd, name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
  const bool is_ours = is_there && is_same(st, file_.opened());
  bool is_back = old_.empty() || (is_ours && renameat2(fd, old_.c_str(), fd, name_.c_str(), 0) == 0);
  // A directory, which somebody has put there meanwhile, replaces no file. After another error the new file
  // stays.
  if (is_ours && !temporary_ && (old_.empty() || (!is_back && errno == ENOTDIR)))
    unlinkat(fd, name_.c_str(), 0);
  is_back = is_back || renameat2(fd, old_.c_str(), fd, name_.c_str(), RENAME_NOREPLACE) == 0;
  // Temporary names may be removed, so the old file keeps this one until it has its own.
  if (has_link_ && is_back) unlinkat(fd, aside_.c_str(), 0);
}

void make_as(const Directory& directory, const Attributes& attributes) {
  const struct timespec times[] = {{0, UTIME_OMIT}, attributes.changed};
  const Held fd = directory.fd();
  if (fchmod(fd, attributes.mode & 01777) != 0 || futimens(fd, times) != 0)
    fail_errno("written", directory.path_of("."));
  // Who may not enter it any more does not open it again.
  directory.sync();
}

bool is_temporary(const std::string& name) { return name.starts_with(prefix) && name.ends_with(suffix); }

void rename_to_free(const Directory& place, const std::string& from, const Directory& other,
                    const std::string& to) {
  if (renameat2(place.fd(), from.c_str(), other.fd(), to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (!is_unsupported() || linkat(place.fd(), from.c_str(), other.fd(), to.c_str(), 0) != 0)
    fail_errno("made", other.path_of(to));
  unlinkat(place.fd(), from.c_str(), 0);
}

void fill_standard_streams() {
  // Opened for the wrong direction: whoever uses them gets an error.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      fail(Status::failure, "/dev/null cannot be opened");
}

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupt = signal; };
  action.sa_flags = SA_RESTART;  // sockets with a timeout, for one, are interrupted all the same
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // What the parent ignores stays ignored, as with nohup.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
  // A closed pipe and a limit on lengths are errors of the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void end_if_interrupted() {
  if (interrupt == 0) return;
  const int signal = interrupt;
  const std::lock_guard lock(Temporary::mutex);
  for (auto each = Temporary::all.rbegin(); each != Temporary::all.rend(); ++each) (*each)->remove();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace ec::file
