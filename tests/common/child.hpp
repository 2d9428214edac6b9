// Work in a child process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace ec::test {

/// Forks. The exit status of the child, which is what `work` returns; -signal if one ended it, as it does
/// after 60 seconds; 255 if there was no child. Allocates nothing.
template <class Work>
int in_child(Work&& work, pid_t (*way)() = fork) {
  const pid_t child = way();
  if (child == 0) {
    alarm(60);
    _exit(work());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 255;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace ec::test
