// Threads that share the work of long copies with those who wait for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ec::kernels::cuda {

/// One of several copies of equal length; owns neither side, and these do not overlap.
struct Copy {
  std::uint8_t* to = nullptr;
  const std::uint8_t* from = nullptr;
};

/// Thread safe. The threads are started by the first long copy, take no signals, and end with this object.
class CopyHelpers {
 public:
  /// A thread is woken some tens of microseconds after it was called, in which a core copies half a MiB; and
  /// a piece is long beside what it takes to hand it out. By reckoning.
  static constexpr std::size_t least_bytes = std::size_t{1} << 20;
  static constexpr std::size_t piece_bytes = std::size_t{256} << 10;

  /// threads: at most so many beside the callers; 0: these copy alone.
  explicit CopyHelpers(unsigned threads);
  /// No copy may be under way. In a child of fork(), which has none of the threads, they are not waited for.
  ~CopyHelpers();
  CopyHelpers(const CopyHelpers&) = delete;
  CopyHelpers& operator=(const CopyHelpers&) = delete;

  /// Those that all devices of this process share while there are some.
  static std::shared_ptr<CopyHelpers> of_process(unsigned threads);

  /// Does copies of `bytes` each, of host memory, and returns when they are done. From least_bytes in all on,
  /// helpers that have nothing else to do take pieces; the caller takes the others, and waits for pieces that
  /// are being copied, not for helpers.
  void copy(std::span<const Copy> copies, std::size_t bytes) noexcept;

 private:
  struct Task;
  struct Crew;
  std::unique_ptr<Crew> crew_;
};

}  // namespace ec::kernels::cuda
