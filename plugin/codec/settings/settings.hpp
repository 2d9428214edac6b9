// Node-local settings: all settings that change who computes and never the bytes written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/cuda/options.hpp"

namespace ec::codec {

/// The exception of set-up code: an errno and a sentence for the operator. Never crosses a host's door.
class SetupError : public std::runtime_error {
 public:
  /// code: a positive errno value. text names the parameter, its value and the allowed ones.
  SetupError(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Router says who codes by each choice. The CPU replaces a missing or faulty device whatever the choice.
enum class BackendChoice { automatic, cpu, gpu, x86, isal, reference };

inline constexpr std::array<std::string_view, 6> backend_choices{"auto", "cpu",  "gpu",
                                                                 "x86",  "isal", "reference"};
constexpr std::string_view name(BackendChoice choice) {
  return backend_choices[static_cast<std::size_t>(choice)];
}
std::optional<BackendChoice> parse_backend_choice(std::string_view text);

/// A whole number in its range. Throws SetupError(EINVAL) that names `name`, the text and the range.
/// takes_suffix: K, M and G multiply by powers of 1024.
std::uint64_t parse_number(std::string_view name, std::string_view text, std::uint64_t lowest,
                           std::uint64_t highest, bool takes_suffix = false);

/// The calls of back ends other than ISA-L's that are compared with ISA-L, and how much of each.
struct Validation {
  /// One call in so many of a thread's, on average; 0: none.
  unsigned every = 1000;
  /// All bytes of such a call, instead of one block of columns.
  bool whole = false;

  friend bool operator==(const Validation&, const Validation&) = default;
};

struct NodeSettings {
  /// EC_CUDA_BACKEND: overrides the profile's `backend` when set.
  std::optional<BackendChoice> backend;
  /// EC_CUDA_THRESHOLD: source bytes (k x chunk) from which `auto` gives pinned chunks to the device.
  /// Nothing: the default of Router.
  std::optional<std::size_t> threshold_bytes;
  /// EC_CUDA_DEVICES (most_devices ordinals from 0 to 63 at most), EC_CUDA_DEADLINE_MS (1 to 600000),
  /// EC_CUDA_RETRY_S (0 to 86400), EC_CUDA_STAGING_BYTES (1 MiB to 1 TiB), EC_CUDA_PINNED_BYTES (2 MiB to 1
  /// TiB). No log: the owner of one adds it.
  kernels::cuda::Options device;
  /// EC_CUDA_VALIDATE: off (every = 0), sample:N (every = N, 1..1000000000), or always (1, whole).
  Validation validation;
  /// EC_CUDA_STOCK_DIRECTORY: absolute path of the directory that holds Ceph's own plugins. Empty: beside the
  /// name and the file by which this plugin was loaded, then where packages put them.
  std::string stock_directory;

  friend bool operator==(const NodeSettings&, const NodeSettings&) = default;
};

/// environment: reads a variable by name; null if it is not set. Throws SetupError(EINVAL) for a value that
/// is malformed or out of range; reads no file. Sizes take the suffixes K, M, G (powers of 1024). Unknown
/// variables that start with EC_CUDA_ are for unknown_settings().
NodeSettings parse_node_settings(const std::function<const char*(const char*)>& environment);

/// The names of all variables, in the order of the table in docs/operations.md.
std::span<const std::string_view> known_settings() noexcept;

/// The names in `environ_block` (as ::environ) that start with EC_CUDA_ and are unknown to this version,
/// comma separated; empty if there are none.
std::string unknown_settings(const char* const* environ_block);

/// The settings of this process, read from its environment once, or the defaults for a setuid program. Throws
/// SetupError as above, and for an unknown EC_CUDA_ variable, at every call until the process is started with
/// a valid environment; std::bad_alloc, and then the next call reads anew. Thread safe, in a child of fork()
/// and while static objects are destroyed too.
const NodeSettings& node_settings();

}  // namespace ec::codec
