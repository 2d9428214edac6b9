// Other processes, looked at by root beside users of any kind: who believes whom, and reads that neither
// block, act nor grow. What a process has put into /proc is no more than text, and all texts here are
// printable.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/files.hpp"

namespace ec::tools {

/// A moment at which work must have ended.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  explicit Deadline(Milliseconds from_now) : end_(Clock::now() + from_now) {}
  /// Not below 0.
  Milliseconds left() const;
  bool is_over() const { return left().count() == 0; }
  /// The earlier one of this and `most` from now.
  Deadline within(Milliseconds most) const { return Deadline(std::min(most, left())); }

 private:
  Clock::time_point end_;
};

/// What work() returns; nothing if the deadline comes first. work() runs in a child, which is killed then: a
/// read of another process's memory map waits for that process's disk, for example. Throws what work()
/// throws, as std::runtime_error. For a process of one thread.
std::optional<std::string> in_child(const Deadline& deadline, const std::function<std::string()>& work);

/// The users whose processes are believed: root, this process's own, and Ceph's.
class Users {
 public:
  /// Ceph's: the user ceph, and those that Ceph's packages use (167 and 64045; in a container no name of this
  /// host says so) where this host has no other user of that number. Everyone: all users.
  enum class Whom : unsigned char { believed, everyone };
  explicit Users(Whom whom);

  bool has(uid_t user) const { return everyone_ || users_.contains(user); }

 private:
  bool everyone_;
  std::set<uid_t> users_;
};

/// An entry of /proc, held open: a process that ends is gone, and no other one takes its place.
class Process {
 public:
  /// Nothing if there is none, or one that has ended and was not waited for.
  static std::optional<Process> find(pid_t pid);
  /// The numbers of all processes of these users that run now: processes of users that are believed first,
  /// and daemons of Ceph before others.
  static std::vector<pid_t> all(Users::Whom whom);

  pid_t pid() const { return pid_; }
  /// Its effective user.
  uid_t user() const { return users_[0]; }
  /// Whether each of its user ids is: a program with the set-user-ID bit runs for who started it.
  bool is_of(const Users& users) const;
  bool has_user(uid_t user) const;
  const std::string& program() const { return program_; }
  /// A daemon of Ceph's by the name of its program.
  bool is_ceph() const { return program_.starts_with("ceph-"); }
  /// Or is a zombie: what was read of it last may be half of the truth.
  bool has_ended() const;
  /// "process 17 (ceph-osd, user 0)"
  std::string text() const;

  /// The first bytes of a file of its entry. Empty if it cannot be read. May wait for the process: call it
  /// in_child().
  std::string read(const char* name, std::size_t most = std::size_t{128} << 10) const;
  /// osd.3 of ceph-osd --id 3, --id=3, -i 3 or -n osd.3; else the program. Waits as read() does.
  std::string name() const;
  /// Where the links /proc/PID/fd/N lead, by number; ends at the deadline. -errno or 0.
  int each_descriptor(
      const Deadline& deadline,
      const std::function<void(const std::string& number, std::string_view target)>& visit) const;
  int directory() const { return directory_.get(); }

 private:
  Process() = default;

  pid_t pid_ = 0;
  support::Descriptor directory_;
  std::vector<uid_t> users_;
  std::string program_;
};

/// The first `most` bytes of an open file; what ended it early is not said.
std::string read_some(int file, std::size_t most);

}  // namespace ec::tools
