#include "kernels/cuda/generate/program_compiler.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "kernels/cuda/generate/nvrtc.hpp"
#include "kernels/cuda/generate/schedule.hpp"
#include "kernels/cuda/generate/tuning.hpp"
#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {
namespace {

/// A compiler must not take a core from a storage daemon that has use for it.
constexpr int background_niceness = 10;

ProgramOptions options_of(const gf::Matrix& matrix, ProgramForm form, unsigned chip) {
  ProgramOptions options = pick_options(matrix.cols(), matrix.rows(), chip);
  options.emit.accumulate = form == ProgramForm::accumulate;
  options.emit.batch = form == ProgramForm::batch;
  return options;
}

/// Uses the compiler, once in a process and for nothing, and has `stop` called when the process ends: a
/// process that ends must not destroy the compiler's library under our thread. The library registers what it
/// destroys when it is opened and first used, and what was registered last runs first, so `stop` is
/// registered after a use, one that is soon over. Before, the thread is not waited for: it would run on in
/// what is destroyed already.
void use_compiler_first(unsigned chip, void (*stop)()) {
  static const struct Used {
    Used(unsigned chip, void (*stop)()) : stop_(stop) {
      static_cast<void>(compile("__global__ void nothing() {}", chip));
    }
    ~Used() { stop_(); }
    void (*stop_)();
  } used(chip, stop);
}

}  // namespace

ProgramCompiler::ProgramCompiler() : cache_(default_cache_directory()) {}

ProgramCompiler& ProgramCompiler::instance() {
  // Never destroyed, since threads of the host may still ask.
  static auto* compiler = new ProgramCompiler;
  return *compiler;
}

std::shared_ptr<Compilation> ProgramCompiler::ask(const gf::Matrix& matrix, ProgramForm form, unsigned chip) {
  auto compilation = std::make_shared<Compilation>(matrix, form, chip);
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= most_queued) return nullptr;
    queue_.push_back(compilation);
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      queue_.pop_back();
      return nullptr;
    }
  }
  wake_.notify_one();
  return compilation;
}

void ProgramCompiler::work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), background_niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const auto compilation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    compile_now(*compilation);
    lock.lock();
  }
}

void ProgramCompiler::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ProgramCompiler::compile_now(Compilation& c) {
  {
    std::lock_guard lock(c.mutex_);
    if (c.done_) return;
  }
  const ProgramOptions options = options_of(c.matrix_, c.form_, c.chip_);
  const auto key = program_key(c.matrix_, c.chip_, describe(options));
  ProgramCache::Cubin cubin = cache_.find(key);
  std::string failure;
  if (cubin) add(device_tallies().programs_found, 1);
  if (!cubin) {
    use_compiler_first(c.chip_, [] { instance().stop(); });
    auto compiled =
        compile(emit(c.matrix_, make_schedule(c.matrix_, options.schedule), options.emit), c.chip_);
    if (compiled) {
      cubin = std::make_shared<const std::vector<char>>(std::move(compiled.cubin));
      cache_.insert(key, cubin);
      add(device_tallies().programs_compiled, 1);
    } else {
      add(device_tallies().programs_failed, 1);
      failure = std::move(compiled.log);
    }
  }
  std::lock_guard lock(c.mutex_);
  if (c.done_) return;
  c.cubin_ = std::move(cubin);
  c.failure_ = std::move(failure);
  c.done_ = true;
}

}  // namespace ec::kernels::cuda
