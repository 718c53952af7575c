#include "kaon/tests/support/isolated.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>

namespace kaon::test {

using namespace engine;

std::string isolated(FunctionRef<std::string()> body, unsigned seconds) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) throw std::runtime_error("isolated: no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("isolated: no process");
  if (child == 0) {
    for (int s : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(s, SIG_DFL);
    close(pipe_ends[0]);
    alarm(seconds);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& e) {
      text = std::string("crashed: thrown: ") + e.what();
    }
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(pipe_ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += size_t(n);
    }
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return std::string("crashed: ") + strsignal(WTERMSIG(status));
  return text;
}

}  // namespace kaon::test
