// What compiler_test.cpp puts in the compiler's place: does what its argument says.
#include <csignal>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "kernels/cuda/generate/compiler_process.hpp"

namespace {

using ec::kernels::cuda::CompilerReply;
using ec::kernels::cuda::CompilerReplyHead;

void say(const std::string& bytes) {
  if (write(STDOUT_FILENO, bytes.data(), bytes.size()) < 0) _exit(1);
}

void say(CompilerReply::Kind kind, std::size_t bytes, const std::string& body) {
  const CompilerReplyHead head{kind, bytes};
  say(std::string(reinterpret_cast<const char*>(&head), sizeof head) + body);
}

}  // namespace

int main(int, char** arguments) {
  const std::string how = arguments[1];
  if (how == "hang") pause();
  if (how == "killed") raise(SIGKILL);
  if (how == "garbage") say("neither head nor body of an answer");
  if (how == "half") say(CompilerReply::Kind::cubin, 1000, "machine code");
  while (how == "endless") say(std::string(1 << 20, 'x'));
  if (how == "deaf") say(CompilerReply::Kind::cubin, 12, "machine code");
  if (how == "preload") {
    const char* preload = getenv("LD_PRELOAD");
    const std::string body = preload == nullptr ? "none" : preload;
    say(CompilerReply::Kind::cubin, body.size(), body);
  }
  return 0;
}
