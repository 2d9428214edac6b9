// Places a job between guards, runs it and compares all of it with the oracle.
#include "tests/common/conformance.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/common/random_bytes.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::test {
namespace {

using oracle::Bytes;

std::vector<GuardedChunk> place(Arena& arena, const std::vector<Bytes>& content,
                                const std::vector<unsigned>& misalignment) {
  std::vector<GuardedChunk> chunks;
  for (std::size_t i = 0; i < content.size(); ++i) {
    chunks.emplace_back(arena, content[i], misalignment.empty() ? 0 : misalignment[i % misalignment.size()]);
  }
  return chunks;
}

/// Empty if every chunk holds what is expected and nothing around it changed.
std::string differences(const char* kind, const std::vector<GuardedChunk>& chunks,
                        const std::vector<Bytes>& expected) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto [held, guards_intact] = chunks[i].inspect();
    const auto at = std::ranges::mismatch(held, expected[i]);
    if (at.in1 != held.end())
      return fmt::format("{} {}: byte {} of {} is {:#04x}, expected {:#04x}", kind, i, at.in1 - held.begin(),
                         held.size(), *at.in1, *at.in2);
    if (!guards_intact) return fmt::format("{} {}: guard bytes were overwritten", kind, i);
  }
  return {};
}

std::vector<Bytes> expected_targets(const JobCase& c, const std::vector<Bytes>& sources,
                                    const std::vector<Bytes>& before) {
  std::vector<Bytes> result;
  const std::size_t k = c.matrix.front().size();
  for (std::size_t s = 0; s < c.stripes; ++s)
    for (auto& target : oracle::apply(c.matrix, {sources.begin() + static_cast<std::ptrdiff_t>(s * k),
                                                 sources.begin() + static_cast<std::ptrdiff_t>((s + 1) * k)}))
      result.push_back(std::move(target));
  if (c.verb == Verb::accumulate)
    for (std::size_t t = 0; t < result.size(); ++t)
      for (std::size_t i = 0; i < c.bytes; ++i) result[t][i] ^= before[t][i];
  return result;
}

/// Views of chunks[0..], stripe by stripe.
std::vector<kernels::Job> jobs_of(const JobCase& c, const kernels::Program& program,
                                  std::span<const kernels::Source> sources,
                                  std::span<const kernels::Target> targets) {
  std::vector<kernels::Job> jobs;
  for (std::size_t s = 0; s < c.stripes; ++s)
    jobs.push_back({&program, sources.subspan(s * program.sources(), program.sources()),
                    targets.subspan(s * program.targets(), program.targets()), c.bytes});
  return jobs;
}

kernels::Status run_jobs(kernels::Backend& backend, const JobCase& c, std::span<const kernels::Job> jobs) {
  if (jobs.size() > 1) return backend.transform_all(jobs);
  return c.verb == Verb::transform ? backend.transform(jobs.front()) : backend.accumulate(jobs.front());
}

}  // namespace

Outcome run_case(kernels::Backend& backend, const JobCase& c, Arena& source_arena, Arena& target_arena) {
  Random random(c.seed);
  const auto source_bytes = random.chunks(c.stripes * c.matrix.front().size(), c.bytes);
  const auto before = random.chunks(c.stripes * c.matrix.size(), c.bytes);
  const auto source_chunks = place(source_arena, source_bytes, c.source_misalignment);
  const auto target_chunks = place(target_arena, before, c.target_misalignment);
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (const auto& chunk : source_chunks) sources.push_back(chunk.source());
  for (const auto& chunk : target_chunks) targets.push_back(chunk.target());

  const kernels::Program program(to_matrix(c.matrix), c.chunks);
  const auto jobs = jobs_of(c, program, sources, targets);
  const bool supported = backend.supports(jobs.front());
  const auto status = run_jobs(backend, c, jobs);
  const auto wanted = supported ? kernels::Status::ok : kernels::Status::unsupported;
  const std::string where = fmt::format("{}: {}x{}, {} stripes of {} bytes, {}: ", backend.name(),
                                        c.matrix.size(), c.matrix.front().size(), c.stripes, c.bytes,
                                        c.verb == Verb::transform ? "transform" : "accumulate");
  if (status != wanted)
    return {Verdict::failed, fmt::format("{}status {} instead of {}", where, name(status), name(wanted))};
  auto wrong = differences("source", source_chunks, source_bytes);
  if (wrong.empty())
    wrong =
        differences("target", target_chunks, supported ? expected_targets(c, source_bytes, before) : before);
  if (!wrong.empty()) return {Verdict::failed, where + wrong};
  return {supported ? Verdict::passed : Verdict::declined, {}};
}

gf::Matrix to_matrix(const oracle::Rows& rows) {
  gf::Matrix matrix(static_cast<unsigned>(rows.size()), static_cast<unsigned>(rows.front().size()));
  for (unsigned r = 0; r < matrix.rows(); ++r)
    for (unsigned c = 0; c < matrix.cols(); ++c) matrix(r, c) = rows[r][c];
  return matrix;
}

oracle::Rows to_rows(const gf::Matrix& matrix) {
  oracle::Rows rows;
  for (unsigned r = 0; r < matrix.rows(); ++r) rows.emplace_back(matrix.row(r).begin(), matrix.row(r).end());
  return rows;
}

oracle::Rows random_matrix(unsigned rows, unsigned cols, std::uint64_t seed) {
  Random random(seed);
  oracle::Rows matrix(rows, Bytes(cols));
  for (auto& row : matrix)
    for (auto& cell : row) {
      const unsigned kind = random.below(8);
      cell = kind < 2 ? static_cast<std::uint8_t>(kind) : static_cast<std::uint8_t>(random.below(256));
    }
  return matrix;
}

bool answers(kernels::Backend& backend) {
#ifdef EC_WITH_CUDA
  kernels::cuda::Reason why;
  if (backend.name().starts_with("cuda") && !kernels::cuda::bring_up(&why)) return false;
#endif
  const std::vector<std::uint8_t> from(4096, 1);
  std::vector<std::uint8_t> to(4096);
  const kernels::Program program{to_matrix({{1}})};
  const kernels::Source source{from.data(), kernels::Residence::pageable};
  const kernels::Target target{to.data(), kernels::Residence::pageable};
  return backend.transform({&program, {&source, 1}, {&target, 1}, 4096}) == kernels::Status::ok;
}

}  // namespace ec::test
