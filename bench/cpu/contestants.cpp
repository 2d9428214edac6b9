// Lines up the back ends of the CPU beside the memory bound.
#include "bench/cpu/contestants.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "bench/common/isal.hpp"
#include "bench/common/stripes.hpp"
#include "bench/cpu/memory_bound.hpp"
#include "ec/ec.h"
#include "kernels/backends.hpp"

namespace ec::bench {
namespace {

using kernels::Status;

/// unseen: each call (there may be 200) asks the code for the plan of a signature that it never saw, always
/// of the same matrix: one more chunk that the code does not have is available. Else the plan is known.
Contestant backend_contestant(kernels::Backend& backend, const std::shared_ptr<const Stripes>& stripes,
                              bool unseen) {
  const auto run = [&backend, stripes, unseen, signature = stripes->operation().signature,
                    next = gf::ChunkSet::capacity](std::size_t s) mutable {
    kernels::Job job = stripes->job(s);
    std::shared_ptr<const codec::Plan> plan;
    if (unseen) {
      signature.available.insert(--next);
      plan = stripes->operation().code->plan(signature);
      if (!plan) throw std::runtime_error("no memory for a plan");
      job.program = &plan->program;
    }
    return backend.transform(job);
  };
  return stripe_contestant(std::string(backend.name()), 1, *stripes, run);
}

Contestant loaded_contestant(const LoadedIsal& isal, const std::shared_ptr<const Stripes>& stripes) {
  const auto& matrix = stripes->operation().program->matrix();
  const auto k = static_cast<int>(matrix.cols());
  const auto m = static_cast<int>(matrix.rows());
  std::vector<unsigned char> cells(matrix.cells().begin(), matrix.cells().end());
  const auto tables = std::make_shared<std::vector<unsigned char>>(cells.size() * 32);
  isal.init_tables(k, m, cells.data(), tables->data());
  return stripe_contestant(isal.name, 1, *stripes, [&isal, k, m, tables, stripes](std::size_t s) {
    isal.encode_data(static_cast<int>(stripes->chunk_bytes()), k, m, tables->data(),
                     const_cast<unsigned char**>(stripes->source_addresses(s).data()),
                     const_cast<unsigned char**>(stripes->target_addresses(s).data()));
    return Status::ok;
  });
}

/// The C interface, by whose words a chunk is laid out as by ours (c_interface.cpp).
Contestant library_contestant(const std::shared_ptr<const Stripes>& stripes) {
  const Operation& operation = stripes->operation();
  ec_codec* made = nullptr;
  const ec_technique technique = operation.technique == gf::Technique::cauchy ? EC_CAUCHY : EC_REED_SOL_VAN;
  if (ec_codec_create(operation.code->k(), operation.code->m(), technique, &made) != 0)
    throw std::runtime_error(ec_error_text());
  const std::shared_ptr<ec_codec> codec(made, ec_codec_destroy);
  std::vector<unsigned> available(operation.reads.begin(), operation.reads.end()), wanted;
  if (operation.decodes()) wanted.assign(operation.plan->targets.begin(), operation.plan->targets.end());
  return stripe_contestant("eccoder", 1, *stripes, [=](std::size_t s) {
    const auto* from = reinterpret_cast<const ec_source*>(stripes->sources(s).data());
    const auto* to = reinterpret_cast<const ec_target*>(stripes->targets(s).data());
    const int error = wanted.empty() ? ec_encode(codec.get(), 1, from, to, stripes->chunk_bytes())
                                     : ec_decode(codec.get(), 1, available.data(), available.size(), from,
                                                 wanted.data(), wanted.size(), to, stripes->chunk_bytes());
    return error == 0 ? Status::ok : Status::fault;
  });
}

}  // namespace

LoadedIsal load_isal(const std::string& file) {
  // Bound to itself: the library's own calls must not reach the ISA-L that this program loads.
  void* const library = open_isal(file, RTLD_LOCAL | RTLD_DEEPBIND);
  LoadedIsal isal{"isal:" + std::filesystem::canonical(file).filename().string(), nullptr, nullptr};
  isal.init_tables = reinterpret_cast<decltype(isal.init_tables)>(dlsym(library, "ec_init_tables"));
  isal.encode_data = reinterpret_cast<decltype(isal.encode_data)>(dlsym(library, function_of_isal));
  if (isal.init_tables == nullptr) throw UsageError(fmt::format("--isal {}: must be an ISA-L", file));
  return isal;
}

std::vector<std::string> all_coders() {
  std::vector<std::string> names;
  for (auto* variant : kernels::variants())
    if (variant->kind() != kernels::BackendKind::device && variant->supports({}))
      names.emplace_back(variant->name());
  names.insert(names.end(), {"isal", "eccoder"});
  return names;
}

std::vector<Contestant> coding_contestants(const CpuCase& c, std::size_t stripe_count,
                                           const std::vector<std::string>& coders,
                                           const std::vector<LoadedIsal>& loaded) {
  const auto stripes = std::make_shared<const Stripes>(
      make_operation(c), c.chunk_bytes, kernels::Residence::pageable, stripe_count, c.layout.gap);
  std::vector<Contestant> list = bound_contestants(stripes);
  for (const std::string& coder : coders)
    if (coder != "eccoder")
      list.push_back(backend_contestant(*kernels::find_backend(coder), stripes, c.op == "decode-miss"));
    else
      list.push_back(library_contestant(stripes));
  for (const LoadedIsal& isal : loaded) list.push_back(loaded_contestant(isal, stripes));
  return list;
}

}  // namespace ec::bench
