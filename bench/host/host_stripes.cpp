#include "bench/host/host_stripes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "bench/common/pool.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;

constexpr std::size_t page = 4096;
constexpr std::uint8_t spoilt = 0x5a;

}  // namespace

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) body(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 1; t < std::min<std::size_t>(all_cores(), count); ++t) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

Twin::Twin(const kernels::Program& encode, std::size_t chunk_bytes)
    : chunk_bytes_(chunk_bytes), bytes_((encode.sources() + encode.targets()) * chunk_bytes) {
  const unsigned k = encode.sources();
  in_parallel(k, [&](std::size_t i) {
    fill_random({bytes_.data() + i * chunk_bytes, chunk_bytes}, 0x100 + i);
  });
  const std::size_t slice = std::size_t{256} << 10;
  in_parallel((chunk_bytes + slice - 1) / slice, [&](std::size_t i) {
    std::vector<Source> from;
    std::vector<Target> to;
    for (unsigned c = 0; c < k; ++c) from.push_back({bytes_.data() + c * chunk_bytes + i * slice});
    for (unsigned c = 0; c < encode.targets(); ++c)
      to.push_back({bytes_.data() + (k + c) * chunk_bytes + i * slice});
    const auto status = kernels::find_backend("reference")
                            ->transform({&encode, from, to, std::min(slice, chunk_bytes - i * slice)});
    if (status != Status::ok) throw std::runtime_error("the reference back end does not code the stripe");
  });
}

void Arena::Free::operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{page}); }

Arena::Arena(Residence residence, std::size_t bytes) : residence_(residence), size_(bytes) {
  if (residence == Residence::pageable) {
    pageable_.reset(static_cast<std::uint8_t*>(::operator new (bytes, std::align_val_t{page})));
    return;
  }
  buffer_ = kernels::cuda::Buffer::allocate(bytes, residence);
  if (!buffer_)
    throw std::runtime_error(fmt::format("no {} memory of {} bytes on this machine; see --largest-bytes",
                                         kernels::name(residence), bytes));
}

void Arena::write(std::uint8_t* to, std::span<const std::uint8_t> from) const {
  if (residence_ != Residence::device)
    std::memcpy(to, from.data(), from.size());
  else if (!buffer_.upload(static_cast<std::size_t>(to - data()), from.data(), from.size()))
    throw std::runtime_error("cannot copy to the device");
}

void Arena::read(const std::uint8_t* from, std::span<std::uint8_t> to) const {
  if (residence_ != Residence::device)
    std::memcpy(to.data(), from, to.size());
  else if (!buffer_.download(static_cast<std::size_t>(from - data()), to.data(), to.size()))
    throw std::runtime_error("cannot copy from the device");
}

HostStripes::HostStripes(const HostCase& c, std::size_t threads, std::size_t turns,
                         std::span<const std::uint8_t> reads, const Twin& twin, const Arena& arena)
    : case_(c),
      threads_(threads),
      turns_(turns),
      twin_(twin),
      arena_(arena),
      sources_(threads * turns),
      targets_(threads * turns) {
  const std::size_t stripes = threads * turns;
  if (stripes * c.stripe_bytes() > arena.size()) throw std::logic_error("the arena is too small");
  const unsigned first_target = c.decodes() ? c.k + c.m : c.k;
  for (std::size_t s = 0; s < stripes; ++s) {
    for (const unsigned chunk : reads) sources_[s].push_back({address(s, chunk), c.residence});
    for (unsigned t = 0; t < c.targets(); ++t)
      targets_[s].push_back({address(s, first_target + t), c.residence});
  }
  const unsigned placed = c.k + c.m;
  in_parallel(stripes * placed, [&](std::size_t i) { place(i / placed, static_cast<unsigned>(i % placed)); });
}

std::size_t HostStripes::turn(std::size_t stripe) const { return stripe * 65 % case_.chunk_bytes; }

std::uint8_t* HostStripes::address(std::size_t stripe, unsigned chunk) const {
  return arena_.data() + (stripe * case_.chunks() + chunk) * case_.chunk_bytes;
}

void HostStripes::place(std::size_t stripe, unsigned chunk) const {
  const auto bytes = twin_.chunk(chunk);
  const std::size_t by = turn(stripe);
  arena_.write(address(stripe, chunk), bytes.subspan(by));
  arena_.write(address(stripe, chunk) + bytes.size() - by, bytes.first(by));
}

void HostStripes::spoil(std::size_t threads, std::size_t turns) const {
  const std::vector<std::uint8_t> bytes(case_.chunk_bytes, spoilt);
  in_parallel(threads * turns, [&](std::size_t i) {
    for (const auto& target : targets_[at_turn(i % threads, i / threads)]) arena_.write(target.data, bytes);
  });
}

bool HostStripes::right(std::size_t threads, std::size_t turns) const {
  std::atomic<bool> all{true};
  in_parallel(threads * turns, [&](std::size_t i) {
    const std::size_t stripe = at_turn(i % threads, i / threads);
    for (unsigned target = 0; target < case_.targets(); ++target)
      if (!is_right(stripe, target)) all = false;
  });
  return all;
}

bool HostStripes::is_right(std::size_t stripe, unsigned target) const {
  // Decode makes the first data chunks, encode the coding chunks.
  const auto expected = twin_.chunk(case_.decodes() ? target : case_.k + target);
  const std::uint8_t* at = targets_[stripe][target].data;
  std::vector<std::uint8_t> copy;
  if (case_.residence == Residence::device) {
    copy.resize(expected.size());
    arena_.read(at, copy);
    at = copy.data();
  }
  const std::size_t by = turn(stripe);
  return std::memcmp(at, expected.data() + by, expected.size() - by) == 0 &&
         std::memcmp(at + expected.size() - by, expected.data(), by) == 0;
}

}  // namespace ec::bench
