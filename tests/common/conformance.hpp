// The one check every back end has to pass: a job against the oracle, with everything around it watched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "tests/common/arena.hpp"
#include "tests/common/oracle.hpp"

namespace ec::test {

using kernels::Residence;
using kernels::Status;
using kernels::Verb;

/// One job, or one for each stripe. Misalignments are 0..255 and count in turn for each chunk; an empty list
/// means none.
struct JobCase {
  oracle::Rows matrix;
  std::size_t bytes = 0;
  Verb verb = Verb::transform;
  std::vector<unsigned> source_misalignment;
  std::vector<unsigned> target_misalignment;
  std::uint64_t seed = 1;
  /// More than one: as many jobs for transform_all, which is the verb then.
  std::size_t stripes = 1;
  kernels::ChunkNumbers chunks = {};
};

/// passed: the result is the oracle's, the sources and all guard bytes are as before.
/// declined: the back end does not support the job, said so, and touched nothing.
enum class Verdict { passed, declined, failed };

struct Outcome {
  Verdict verdict = Verdict::failed;
  std::string reason;  ///< Empty unless failed; names the first thing that is wrong.
};

/// Runs the case on `backend` with sources and targets in the given arenas. Targets hold random bytes before.
Outcome run_case(kernels::Backend& backend, const JobCase& job_case, Arena& sources, Arena& targets);
inline Outcome run_case(kernels::Backend& backend, const JobCase& job_case, Arena& arena) {
  return run_case(backend, job_case, arena, arena);
}

gf::Matrix to_matrix(const oracle::Rows& rows);
oracle::Rows to_rows(const gf::Matrix& matrix);

/// `rows` x `cols` random coefficients, about one in eight zero and one in eight one.
oracle::Rows random_matrix(unsigned rows, unsigned cols, std::uint64_t seed);

/// Whether `backend` finishes a small job right now: false for a device back end without a device.
bool answers(kernels::Backend& backend);

}  // namespace ec::test
