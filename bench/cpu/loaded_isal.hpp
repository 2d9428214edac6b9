// Another build of Intel ISA-L, loaded from a file at run time, as a back end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace ec::bench {

/// transform only. Knows the programs it was shown; they must outlive it.
class LoadedIsal final : public kernels::Backend {
 public:
  /// Throws std::runtime_error if the file cannot be loaded or lacks what is needed.
  explicit LoadedIsal(const std::string& file);

  /// "isal:" and the name of the file.
  std::string_view name() const noexcept override { return name_; }
  bool supports(const kernels::Job& job) const noexcept override;
  kernels::Status transform(const kernels::Job& job) noexcept override;
  kernels::Status accumulate(const kernels::Job&) noexcept override { return kernels::Status::unsupported; }

  /// Expands the program's tables; to be called before its first transform, by one thread.
  void prepare(const kernels::Program& program);

 private:
  std::string name_;
  void (*init_tables_)(int, int, unsigned char*, unsigned char*);
  void (*encode_data_)(int, int, int, unsigned char*, unsigned char**, unsigned char**);
  std::map<const kernels::Program*, std::vector<unsigned char>> tables_;
};

}  // namespace ec::bench
