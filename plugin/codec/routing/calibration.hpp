// The file in which `ectool calibrate` leaves the costs of a machine, and where a process finds it.
#pragma once

#include <string>
#include <string_view>

#include "plugin/codec/routing/cost_model.hpp"
#include "plugin/codec/routing/machine.hpp"

namespace ec::codec {

struct Calibration {
  std::string cpu;   ///< of the machine that was measured
  std::string gpu;   ///< its GPU; empty if there was none, and the costs of the device are built in
  std::string date;  ///< for people
  CostTable costs;

  bool operator==(const Calibration&) const = default;
};

/// The file's text; ends in a newline.
std::string to_json(const Calibration& calibration);

/// Throws SetupError(EINVAL) with the reason if `text` is not such a file, or belongs to another machine than
/// `here` or another version of ours. Any text is safe to give.
Calibration parse_calibration(std::string_view text, const Machine& here);

/// Where processes look for it, unless EC_CUDA_CALIBRATION names another file.
inline constexpr const char* default_calibration = "/etc/ec_cuda/calibration.json";

/// The costs a process works with, and how it came by them.
struct Costs {
  CostTable table = default_costs();
  std::string path;     ///< of the file they are from; empty if they are built in
  std::string refused;  ///< one line if a file is there and is not used; else empty

  friend bool operator==(const Costs&, const Costs&) = default;
};

/// Costs from the file at `path`; empty: default_calibration, which need not be there. A file that is
/// missing, larger than 64 KiB, not a regular file, not owned by root or this user, writable by others, or
/// refused by parse_calibration leaves the built-in ones.
Costs costs_from(const std::string& path, const Machine& here);

/// Writes the file by a new name and moves it into place, mode 0644; makes the directory it lies in. Throws
/// SetupError with the errno of the step that failed; then what was there before is still there.
void write_calibration(const std::string& path, const Calibration& calibration);

}  // namespace ec::codec
