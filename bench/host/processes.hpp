// `ec_bench host --processes N`: the same measurement by many processes at once, in step.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ec::bench {

/// What a member of such a run was given by the process that started it.
struct Membership {
  unsigned index = 0;
  int shared_fd = -1;  ///< memory that the members share; -1: this process measures alone
  int report_fd = -1;  ///< where the report goes
};

/// Hands the report over to the process that started this one. Throws std::system_error.
void hand_over(const Membership& member, const nlohmann::json& report);

/// Keeps the members in step. A process that measures alone waits for nobody.
class Step {
 public:
  /// Throws std::system_error.
  explicit Step(const Membership& member);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// The first of the members, or alone. It alone measures the link.
  bool leads() const { return leads_; }
  bool is_shared() const { return shared_ != nullptr; }
  /// Until all members are here.
  void wait() const;
  /// What the leader says, in every member.
  bool agree(bool mine) const;

 private:
  struct Shared;
  friend std::vector<nlohmann::json> run_members(unsigned count, const std::vector<std::string>& arguments);
  bool leads_;
  Shared* shared_ = nullptr;
};

/// Runs `ec_bench host` with these arguments in `count` processes and returns their reports. To be called
/// before the first use of a GPU and with one thread. A member that fails ends them all. Throws
/// std::runtime_error.
std::vector<nlohmann::json> run_members(unsigned count, const std::vector<std::string>& arguments);

}  // namespace ec::bench
