// Compiles generated programs and loads them, in a thread of its own.
#include "kernels/cuda/generate/program_compiler.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/generate/compiler_process.hpp"
#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {
namespace {

/// A program takes less than a second on a machine of its own, and took 42 s as one of 20 processes for two
/// cores.
constexpr std::chrono::minutes deadline{5};

}  // namespace

ProgramCompiler& ProgramCompiler::instance() {
  // Never destroyed, since threads of the host may still ask. The thread is waited for: at the end of a
  // process nothing of ours should be in the driver.
  static auto* compiler = new ProgramCompiler;
  static struct Stopper {
    ~Stopper() { compiler->stop(); }
  } stopper;
  return *compiler;
}

std::shared_ptr<const GeneratedKernel> ProgramCompiler::ask(const gf::Matrix& matrix, ProgramForm form,
                                                            const std::shared_ptr<Device>& device) {
  Kernels one{std::make_shared<GeneratedKernel>(matrix, form, device)};
  std::lock_guard lock(mutex_);
  for (Kernels* kernels : {&made_, &queue_})
    for (auto at = kernels->begin(); at != kernels->end(); ++at)
      if ((*at)->is_for(form, device) && (*at)->matrix() == matrix && (*at)->failure().empty()) {
        kernels->splice(kernels == &made_ ? made_.begin() : at, *kernels, at);
        return *at;
      }
  if (stopping_ || queue_.size() >= most_queued) return nullptr;
  if (!thread_.started() && thread_.start("ec_cuda_compile", [this] { work(); }) != 0) return nullptr;
  queue_.splice(queue_.end(), one);
  wake_.notify_one();
  return queue_.back();
}

void ProgramCompiler::stop() {
  // In a child of fork() nobody is there to let go of the lock.
  if (Devices::in_forked_child()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ProgramCompiler::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    made_.splice(made_.begin(), queue_, queue_.begin());
    GeneratedKernel& kernel = *made_.front();
    Kernels unused = take_unused_locked();
    lock.unlock();
    for (const auto& each : unused)
      if (const auto device = each->device_.lock(); device && each->module_ != nullptr)
        device->unload(each->module_);
    unused.clear();
    make(kernel);
    lock.lock();
  }
}

/// No job of an unused kernel is in flight: whoever runs one holds the program.
ProgramCompiler::Kernels ProgramCompiler::take_unused_locked() {
  Kernels unused;
  std::size_t kept = 0;
  for (auto at = made_.begin(); at != made_.end();) {
    const auto here = at++;
    if (here->use_count() != 1 || !(*here)->done_) continue;
    const bool useful = !(*here)->device_is_gone() && (*here)->failure_.empty();
    if (!useful || ++kept > most_unused) unused.splice(unused.end(), made_, here);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return unused;
}

void ProgramCompiler::make(GeneratedKernel& kernel) noexcept {
  try {
    kernel.failure_ = compile_and_load(kernel);
  } catch (const std::exception&) {
    kernel.failure_ = "out of memory";  // fits where no memory is needed
  }
  kernel.done_ = true;
  kernel.done_.notify_all();
}

/// Empty, or why there is no kernel.
std::string ProgramCompiler::compile_and_load(GeneratedKernel& kernel) {
  auto device = kernel.device_.lock();
  if (!device) return "the device is gone";
  const unsigned chip = device->chip();
  device = nullptr;  // it need not wait for the compiler
  std::string why;
  const std::vector<char> cubin = compiled(kernel, chip, &why);
  if (cubin.empty()) return why;
  device = kernel.device_.lock();
  if (!device) return "the device is gone";
  device->driver().stay_out_of_captures();
  CUfunction function = nullptr;
  const CUresult result = device->load(cubin.data(), entry_point, &kernel.module_, &function);
  if (result != CUDA_SUCCESS) return "the driver does not load it: " + device->driver().error_name(result);
  kernel.function_.store(function, std::memory_order_release);
  return {};
}

/// From a file or from the compiler; nothing, and *why, if there is none.
std::vector<char> ProgramCompiler::compiled(const GeneratedKernel& kernel, unsigned chip, std::string* why) {
  auto& tallies = device_tallies();
  if (know_version(why)) {
    const std::string source = emit(kernel.matrix_, kernel.form_, chip);
    const std::string key = fmt::format("NVRTC {} sm_{}\n{}", version_, chip, source);
    if (std::vector<char> cubin = files_.read(key); !cubin.empty()) {
      add(tallies.programs_found, 1);
      return cubin;
    }
    CompilerReply reply =
        run_compiler(compiler_program(), std::to_string(chip).c_str(), source, deadline, stopping_);
    if (reply.kind == CompilerReply::Kind::cubin) {
      std::vector<char> cubin(reply.body.begin(), reply.body.end());
      files_.write(key, cubin);
      add(tallies.programs_compiled, 1);
      return cubin;
    }
    *why = std::move(reply.body);
  }
  add(tallies.programs_failed, 1);
  return {};
}

/// Asks once what every key begins with, and with that whether anything can be compiled here.
bool ProgramCompiler::know_version(std::string* why) {
  if (version_.empty() && unavailable_.empty()) {
    CompilerReply reply = run_compiler(compiler_program(), ask_for_version, {}, deadline, stopping_);
    if (reply.kind == CompilerReply::Kind::version)
      version_ = std::move(reply.body);
    else if (reply.kind == CompilerReply::Kind::unavailable) {
      unavailable_ = std::move(reply.body);
      log(current_options(), "no kernels are generated, those for any matrix serve: {}", unavailable_);
    } else
      *why = std::move(reply.body);
  }
  if (!unavailable_.empty()) *why = unavailable_;
  return !version_.empty();
}

}  // namespace ec::kernels::cuda
