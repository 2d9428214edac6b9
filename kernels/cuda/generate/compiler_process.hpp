// Runs a program that compiles in a process of its own: NVRTC crashes in a process that ends while it is
// opened or used, and takes memory that a daemon has other uses for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ec::kernels::cuda {

/// What the program answers.
struct CompilerReply {
  enum class Kind : std::uint64_t {
    cubin = 0xec0c0de2,  ///< machine code
    refused,             ///< what NVRTC says of the source
    unavailable,         ///< why nothing is compiled in this process, now or later
    failed               ///< what went wrong this time
  };
  Kind kind;
  std::string body;
};

/// What the program writes before the body.
struct CompilerReplyHead {
  CompilerReply::Kind kind;
  std::uint64_t bytes;  ///< of the body
};

/// The program made of compile_program.cpp, embedded in this library. Its argument is a chip, "90"; the
/// source is its standard input and the answer its standard output, both files.
std::string_view compiler_program() noexcept;

/// Runs `program`, an ELF file, with one argument and `input`, and waits for its answer: `failed` after
/// `deadline` or once `stop` is set, and then it is killed; `unavailable` if this system lets no program run
/// from memory. The process gets the environment without LD_PRELOAD, standard error, and no other descriptor
/// that is closed on exec; all signals are as by default. Whoever else waits for this process's children may
/// take it. Thread safe. Throws std::bad_alloc alone.
CompilerReply run_compiler(std::string_view program, const char* argument, std::string_view input,
                           std::chrono::milliseconds deadline, const std::atomic<bool>& stop);

}  // namespace ec::kernels::cuda
