#include "tests/kernels/cuda/workload.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "kernels/backends.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "kernels/residence.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::cuda::KernelKind;

/// A stream of the program's own, if the device is up.
class OwnStream {
 public:
  OwnStream() : device_(kernels::cuda::Devices::instance().current()) {
    if (!device_) return;
    const kernels::cuda::Device::Scope scope(*device_);
    if (device_->driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) stream_ = nullptr;
  }
  ~OwnStream() {
    if (stream_ == nullptr || hung_) return;
    const kernels::cuda::Device::Scope scope(*device_);
    device_->driver().stream_destroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  CUstream get() const { return stream_; }

  /// Waits as a program does that has other things to do; what a program makes of an error is a fault.
  Status wait() {
    const kernels::cuda::Device::Scope scope(*device_);
    const auto end = std::chrono::steady_clock::now() + device_->options().deadline;
    for (;;) {
      const CUresult answer = device_->driver().stream_query(stream_);
      if (answer == CUDA_SUCCESS) return Status::ok;
      if (answer != CUDA_ERROR_NOT_READY) return Status::fault;
      hung_ = std::chrono::steady_clock::now() > end;
      if (hung_) return Status::hung;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  std::shared_ptr<kernels::cuda::Device> device_;
  CUstream stream_ = nullptr;
  bool hung_ = false;
};

/// The one back end of this kind, then the CPU, which every result is compared with.
struct Backends {
  explicit Backends(KernelKind kind) : list{&kernels::cuda::backend(kind), kernels::backends().back()} {}
  std::array<kernels::Backend*, 2> list;
  codec::Counters counts;
  codec::Validator validator{{.every = 1, .whole = true}};
  codec::Router router{codec::BackendChoice::gpu, 0, codec::default_costs(), list, counts, validator};
};

}  // namespace

Slab::Slab(Residence residence, std::size_t chunks, std::size_t bytes)
    : residence_(residence), bytes_(bytes), stride_((bytes + 255) / 256 * 256) {
  const std::size_t all = chunks * stride_;
  if (residence != Residence::device && posix_memalign(&block_, 4096, all) == 0) {
    base_ = static_cast<std::uint8_t*>(block_);
    if (residence == Residence::pageable || kernels::residence_of(base_, all) == residence) return;
    std::free(block_);  // no preload, or its arena is not open
    base_ = nullptr;
    block_ = nullptr;
  }
  buffer_ = kernels::cuda::Buffer::allocate(all, residence);
  base_ = buffer_.data();
}

Slab::~Slab() {
  if (abandoned_) {
    new kernels::cuda::Buffer(std::move(buffer_));
    return;
  }
  std::free(block_);
}

bool Slab::put(std::size_t i, const oracle::Bytes& content) const {
  if (residence_ == Residence::device) return buffer_.upload(i * stride_, content.data(), bytes_);
  std::memcpy(chunk(i), content.data(), bytes_);
  return true;
}

bool Slab::get(std::size_t i, oracle::Bytes* content) const {
  content->resize(bytes_);
  if (residence_ == Residence::device) return buffer_.download(i * stride_, content->data(), bytes_);
  std::memcpy(content->data(), chunk(i), bytes_);
  return true;
}

const Seen& Workload::run() {
  using enum KernelKind;
  using enum Residence;
  codec_jobs();
  for (const Job& each : std::initializer_list<Job>{
           {"tile kernel, pinned", tile, Verb::transform, pinned},
           {"table kernel, pageable", table, Verb::transform, pageable},
           {"bit kernel, pinned", bits, Verb::transform, pinned},
           {"bit kernel, added", bits, Verb::accumulate, pageable},
           {"best kernel, pageable, in slices", automatic, Verb::transform, pageable, 1, false,
            sliced_chunk_bytes},
           {"generated kernel, pinned", generated, Verb::transform, pinned},
           {"generated kernel, added", generated, Verb::accumulate, pageable},
           {"best kernel, pinned, added", automatic, Verb::accumulate, pinned},
           {"best kernel, pinned", automatic, Verb::transform, pinned},
           {"best kernel, on the device", automatic, Verb::transform, device},
           {"best kernel, on the device, added", automatic, Verb::accumulate, device},
           {"generated kernel, stripes on the device", generated, Verb::transform, device, 3},
           {"generated kernel, stripes, pinned", generated, Verb::transform, pinned, 3},
           {"best kernel, stripes, pinned", automatic, Verb::transform, pinned, 3},
           {"generated kernel, stripes on a stream", generated, Verb::transform, device, 3, true},
           {"best kernel, on a stream", automatic, Verb::transform, device, 1, true}})
    job(each);
  return seen_;
}

unsigned Workload::changed() const {
  unsigned sum = 0;
  for (const Result& r : results_) {
    oracle::Bytes now;
    sum += r.slab->residence() != Residence::device && r.slab->get(r.chunk, &now) && now != r.expected;
  }
  return sum;
}

void Workload::bad(const char* name, Status status) {
  if (seen_.first_bad.empty())
    seen_.first_bad = std::string(name) + ": " + std::string(kernels::name(status));
}

bool Workload::right(const std::vector<Result>& results, bool* readable) const {
  *readable = true;
  bool all = true;
  for (const Result& r : results) {
    oracle::Bytes now;
    if (r.slab->get(r.chunk, &now))
      all = all && now == r.expected;
    else
      *readable = false;
  }
  return all || !*readable;
}

void Workload::judge(const Job& job, Status status, std::vector<Result> results) {
  const bool device = job.residence == Residence::device;
  if (status != Status::ok) {
    ++(device ? seen_.device_failed : seen_.failed);
    if (!device) bad(job.name, status);
    return;
  }
  bool readable = true;
  if (!right(results, &readable)) {
    ++(job.on_stream ? seen_.stream_wrong : device ? seen_.device_wrong : seen_.wrong);
    bad(job.name, status);
  } else if (readable) {
    results_.insert(results_.end(), results.begin(), results.end());
  }
}

/// An encode, a decode of two lost chunks and an update of one stripe in pageable memory.
void Workload::codec_jobs() {
  Backends backends(KernelKind::automatic);
  const codec::Codec codec(gf::Technique::reed_sol_van, k, m, backends.router);
  const Slab& slab = slabs_.emplace_back(Residence::pageable, k + m + 1, chunk_bytes);
  Random random(++seed_);
  std::vector<oracle::Bytes> chunks = random.chunks(k, chunk_bytes);
  const auto matrix = oracle::coding_matrix("reed_sol_van", k, m);
  for (const auto& coded : oracle::apply(matrix, chunks)) chunks.push_back(coded);
  const oracle::Bytes delta = random.bytes(chunk_bytes);
  for (std::size_t i = 0; i < k; ++i) (void)slab.put(i, chunks[i]);
  (void)slab.put(k + m, delta);
  std::vector<Source> sources;
  std::vector<Target> targets;
  for (std::size_t i = 0; i < k + m; ++i) {
    sources.push_back({slab.chunk(i), Residence::pageable});
    targets.push_back({slab.chunk(i), Residence::pageable});
  }
  const auto results = [&](std::initializer_list<std::size_t> list) {
    std::vector<Result> r;
    for (const std::size_t i : list) r.push_back({&slab, i, chunks[i]});
    return r;
  };
  const auto timed = [&](const char* name, std::initializer_list<std::size_t> made, auto&& work) {
    const auto begin = std::chrono::steady_clock::now();
    const Status status = work();
    seen_.longest = std::max(seen_.longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                std::chrono::steady_clock::now() - begin));
    ++seen_.jobs;
    judge({name, KernelKind::automatic, Verb::transform, Residence::pageable}, status, results(made));
  };
  timed("encode", {k, k + 1}, [&] {
    return codec.encode({sources.data(), k}, {targets.data() + k, m}, chunk_bytes);
  });
  for (const std::size_t lost : {1u, 4u}) (void)slab.put(lost, oracle::Bytes(chunk_bytes, 0xbb));
  const auto plan = codec.plan({{0, 2, 3, 5}, {1, 4}});
  timed("decode", {1, 4}, [&] { return codec.decode(*plan, sources, targets, chunk_bytes); });
  for (std::size_t i = 0; i < chunk_bytes; ++i) chunks[2][i] ^= delta[i];
  chunks[k] = oracle::apply(matrix, {chunks.begin(), chunks.begin() + k})[0];
  chunks[k + 1] = oracle::apply(matrix, {chunks.begin(), chunks.begin() + k})[1];
  results_.clear();  // the update is to change some of them
  timed("update", {k, k + 1}, [&] {
    return codec.update(2, {slab.chunk(k + m), Residence::pageable}, {targets.data() + k, m}, chunk_bytes);
  });
  seen_.on_device += backends.counts.read(0).calls;
  seen_.fell_back += backends.counts.read(0).fallbacks;
  seen_.found_wrong += static_cast<unsigned>(backends.validator.read(0).mismatches);
  seen_.unchecked += static_cast<unsigned>(backends.validator.read(0).unchecked);
}

Status Workload::start(const Job& job, const codec::Router& router, std::span<const kernels::Job> jobs) {
  if (job.on_stream) {
    OwnStream stream;
    if (stream.get() == nullptr) return Status::fault;
    const Status status = router.enqueue(jobs, stream.get());
    return status == Status::ok ? stream.wait() : status;
  }
  if (jobs.size() > 1) return router.transform_all(jobs);
  return job.verb == Verb::accumulate ? router.accumulate(jobs[0]) : router.transform(jobs[0]);
}

void Workload::job(const Job& job) {
  constexpr std::size_t width = k + m;
  const auto matrix = random_matrix(m, k, ++seed_);
  const auto& program = programs_.emplace_back(to_matrix(matrix));
  Slab& slab = slabs_.emplace_back(job.residence, job.stripes * width, job.bytes);
  ++seen_.jobs;
  if (!slab) {
    ++seen_.device_failed;
    return;
  }
  std::vector<Source> sources;
  std::vector<Target> targets;
  std::vector<kernels::Job> jobs;
  std::vector<Result> results;
  for (std::size_t s = 0; s < job.stripes; ++s) {
    const auto content = Random(seed_ * 1000 + s).chunks(width, job.bytes);
    for (std::size_t i = 0; i < width; ++i)
      if (!slab.put(s * width + i, content[i])) {
        ++seen_.device_failed;
        return;
      }
    auto coded = oracle::apply(matrix, {content.begin(), content.begin() + k});
    for (std::size_t r = 0; r < m; ++r) {
      for (std::size_t i = 0; job.verb == Verb::accumulate && i < job.bytes; ++i)
        coded[r][i] ^= content[k + r][i];
      results.push_back({&slab, s * width + k + r, coded[r]});
    }
    for (std::size_t i = 0; i < k; ++i) sources.push_back({slab.chunk(s * width + i), job.residence});
    for (std::size_t i = k; i < width; ++i) targets.push_back({slab.chunk(s * width + i), job.residence});
  }
  for (std::size_t s = 0; s < job.stripes; ++s)
    jobs.push_back(
        {&program, std::span(sources).subspan(s * k, k), std::span(targets).subspan(s * m, m), job.bytes});
  if (job.residence != Residence::pageable) (void)kernels::residence_by_driver(slab.chunk(0), job.bytes);

  Backends backends(job.kind);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = start(job, backends.router, jobs);
  seen_.longest = std::max(seen_.longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::steady_clock::now() - begin));
  seen_.on_device += backends.counts.read(0).calls;
  seen_.fell_back += backends.counts.read(0).fallbacks;
  seen_.found_wrong += static_cast<unsigned>(backends.validator.read(0).mismatches);
  seen_.unchecked += static_cast<unsigned>(backends.validator.read(0).unchecked);
  if (status == Status::hung && job.residence != Residence::pageable) {
    ++seen_.hung;
    slab.abandon();
    // As plugin/ceph does: once more, in memory that no device writes.
    if (job.residence == Residence::pinned && job.verb == Verb::transform)
      this->job({job.name, job.kind, job.verb, Residence::pageable, 1, false, job.bytes});
    return;
  }
  judge(job, status, std::move(results));
}

}  // namespace ec::test
