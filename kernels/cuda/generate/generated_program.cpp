// Compiles generated programs and loads them.
#include "kernels/cuda/generate/generated_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <new>
#include <utility>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/generate/compiler_process.hpp"
#include "kernels/device_stats.hpp"
#include "support/background_thread.hpp"
#include "support/process_life.hpp"
#include "support/wait.hpp"

namespace ec::kernels::cuda {

/// The program of one matrix on one device, asked for and at some time there.
struct GeneratedKernel {
  const gf::Matrix matrix;
  const ProgramForm form;
  const std::weak_ptr<Device> device;
  CUmodule module = nullptr;                  // of the compiler's thread
  std::string failure{};                      // set before `done`
  std::atomic<CUfunction> function{nullptr};  // null until it is there, and for good if that fails
  std::atomic<bool> done{false};

  bool is_for(ProgramForm its_form, const std::shared_ptr<Device>& its_device) const {
    return form == its_form && !device.owner_before(its_device) && !its_device.owner_before(device);
  }
  bool failed() const { return done && !failure.empty(); }
};

namespace {

/// A program takes less than a second on a machine of its own, and took 42 s as one of 20 processes for two
/// cores.
constexpr std::chrono::minutes deadline{5};

/// All kernels, and the thread that makes them. Thread safe.
class ProgramCompiler {
 public:
  static ProgramCompiler& instance() {
    // The thread is waited for: at the end of a process nothing of ours should be in the driver.
    static NeverDestroyed<ProgramCompiler> compiler;
    static struct Stopper {
      ~Stopper() { compiler.value.stop(); }
    } stopper;
    return compiler.value;
  }

  /// The kernel for this device, of whoever asked for it first; otherwise it is queued, and the thread starts
  /// with the first. Null if the queue is full, the system has no thread, or the process ends. Throws
  /// std::bad_alloc.
  std::shared_ptr<const GeneratedKernel> ask(const gf::Matrix& matrix, ProgramForm form,
                                             const std::shared_ptr<Device>& device);

 private:
  static constexpr std::size_t most_queued = 64;
  static constexpr std::size_t most_unused = 64;
  using Kernels = std::list<std::shared_ptr<GeneratedKernel>>;

  void stop() {
    // In a child of fork() nobody is there to let go of the lock.
    if (Devices::in_forked_child()) return;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      auto next = kernels_.end();
      support::wait(wake_, lock, [&] {
        next = std::ranges::find_if(kernels_, [](const auto& kernel) { return !kernel->done; });
        return stopping_ || next != kernels_.end();
      });
      if (stopping_) return;
      const std::shared_ptr<GeneratedKernel> kernel = *next;
      Kernels unused = take_unused_locked();
      lock.unlock();
      for (const auto& each : unused)
        if (const auto device = each->device.lock(); device && each->module != nullptr)
          device->unload(each->module);
      unused.clear();
      make(*kernel);
      lock.lock();
    }
  }

  /// No job of an unused kernel is in flight: whoever runs one holds the program.
  Kernels take_unused_locked() {
    Kernels unused;
    std::size_t kept = 0;
    for (auto end = kernels_.end(); end != kernels_.begin();) {
      const auto at = std::prev(end);
      const GeneratedKernel& kernel = **at;
      const bool used = at->use_count() != 1 || !kernel.done;
      const bool useful = !kernel.device.expired() && !kernel.failed();
      if (used || (useful && ++kept <= most_unused))
        end = at;
      else
        unused.splice(unused.end(), kernels_, at);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return unused;
  }

  void make(GeneratedKernel& kernel) noexcept;
  /// Empty, or why there is no kernel.
  std::string compile_and_load(GeneratedKernel& kernel) {
    auto device = kernel.device.lock();
    if (!device) return "the device is gone";
    const unsigned chip = device->chip();
    device = nullptr;  // it need not wait for the compiler
    std::string why;
    const std::string cubin = cubin_of(kernel, chip, &why);
    if (cubin.empty()) return why;
    device = kernel.device.lock();
    if (!device) return "the device is gone";
    device->driver().stay_out_of_captures();
    CUfunction function = nullptr;
    const CUresult result = device->load(cubin.data(), entry_point, &kernel.module, &function);
    if (result != CUDA_SUCCESS)
      return "the driver does not load it: " + std::string(device->driver().error_name(result).view());
    kernel.function.store(function, std::memory_order_release);
    return {};
  }

  /// What the compiler makes of it; empty, and *why, if that is nothing.
  std::string cubin_of(const GeneratedKernel& kernel, unsigned chip, std::string* why) {
    if (unavailable_.empty()) {
      CompilerReply reply = run_compiler(compiler_program(), std::to_string(chip).c_str(),
                                         emit(kernel.matrix, kernel.form, chip), deadline, stopping_);
      if (reply.kind == CompilerReply::Kind::cubin) {
        add(device_stats().programs_compiled, 1);
        return std::move(reply.body);
      }
      if (reply.kind == CompilerReply::Kind::unavailable) {
        unavailable_ = reply.body;
        log(current_options(), "no kernels are generated, those for any matrix serve: {}", unavailable_);
      }
      *why = std::move(reply.body);
    } else {
      *why = unavailable_;
    }
    add(device_stats().programs_failed, 1);
    return {};
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Kernels kernels_;  // what was asked for last is last
  std::atomic<bool> stopping_{false};
  support::BackgroundThread thread_;
  std::string
      unavailable_;  // of the thread: why nothing is compiled in this process; empty: something may be
};

std::shared_ptr<const GeneratedKernel> ProgramCompiler::ask(const gf::Matrix& matrix, ProgramForm form,
                                                            const std::shared_ptr<Device>& device) {
  Kernels one{std::shared_ptr<GeneratedKernel>(new GeneratedKernel{matrix, form, device})};
  std::lock_guard lock(mutex_);
  std::size_t queued = 0;
  for (auto at = kernels_.begin(); at != kernels_.end(); ++at) {
    const auto kernel = *at;
    if (kernel->is_for(form, device) && kernel->matrix == matrix && !kernel->failed()) {
      if (kernel->done) kernels_.splice(kernels_.end(), kernels_, at);
      add(device_stats().programs_found, 1);
      return kernel;
    }
    queued += !kernel->done;
  }
  if (stopping_ || queued >= most_queued) return nullptr;
  if (!thread_.started() && thread_.start("ec_cuda_compile", [this] { work(); }) != 0) return nullptr;
  kernels_.splice(kernels_.end(), one);
  wake_.notify_one();
  return kernels_.back();
}

void ProgramCompiler::make(GeneratedKernel& kernel) noexcept {
  try {
    kernel.failure = compile_and_load(kernel);
  } catch (const std::exception&) {
    kernel.failure = "out of memory";  // fits where no memory is needed
  }
  kernel.done = true;
  kernel.done.notify_all();
}

}  // namespace

const GeneratedProgram* GeneratedProgram::of(const Program& program) {
  if (!program.may_be_compiled()) return nullptr;
  return static_cast<const GeneratedProgram*>(
      program.expansion(ExpansionSlot::cuda, [&]() -> std::unique_ptr<GeneratedProgram> {
        try {
          return std::make_unique<GeneratedProgram>(program.matrix());
        } catch (const std::bad_alloc&) {
          return nullptr;
        }
      }));
}

CUfunction GeneratedProgram::function(const std::shared_ptr<Device>& device, ProgramForm form,
                                      std::uint64_t source_bytes, Wish wish) const {
  std::unique_lock lock(mutex_);
  coded_bytes_ += source_bytes;
  const GeneratedKernel* kernel = kernel_locked(device, form, wish);
  lock.unlock();
  if (kernel == nullptr) return nullptr;
  // It stays where it is while its device is there.
  if (wish == Wish::now) kernel->done.wait(false);
  return kernel->function.load(std::memory_order_acquire);
}

const GeneratedKernel* GeneratedProgram::kernel_locked(const std::shared_ptr<Device>& device,
                                                       ProgramForm form, Wish wish) const try {
  for (const auto& kernel : kernels_)
    if (kernel->is_for(form, device)) return kernel.get();
  if (wish == Wish::never) return nullptr;
  if (wish == Wish::later && coded_bytes_ < device->options().generate_after_bytes) return nullptr;
  std::erase_if(kernels_, [](const auto& kernel) { return kernel->device.expired(); });
  kernels_.reserve(kernels_.size() + 1);
  auto asked = ProgramCompiler::instance().ask(matrix_, form, device);
  return asked ? kernels_.emplace_back(std::move(asked)).get() : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::string GeneratedProgram::failure(ProgramForm form) const {
  std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels_)
    if (kernel->form == form && kernel->failed()) return kernel->failure;
  return {};
}

}  // namespace ec::kernels::cuda
