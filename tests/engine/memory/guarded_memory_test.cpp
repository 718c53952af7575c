// Memory between guard pages: what oversteps a block ends the process.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "kaon/engine/memory/guarded_memory.h"
#include "kaon/tests/engine/support.h"

namespace guarded_memory_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

// The signal that ends a process which does this; 0: it comes to its end.
int signal_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    for (int s : {SIGSEGV, SIGBUS, SIGABRT}) signal(s, SIG_DFL);  // without the test program's report
    close(STDERR_FILENO);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("guarded memory: blocks of all sizes are aligned, and their own to the last byte", "[engine]") {
  for (size_t bytes : {0, 1, 63, 64, 65, 1000, 4095, 4096, 4097, 100'000}) {
    std::vector<char*> blocks;
    for (int i = 0; i < 8; ++i) {  // at the end of their pages, and at the beginning
      blocks.push_back(static_cast<char*>(guarded_allocate(bytes)));
      REQUIRE(reinterpret_cast<uintptr_t>(blocks.back()) % 64 == 0);
      std::memset(blocks.back(), i, bytes);
    }
    for (int i = 0; i < 8; ++i) {
      CHECK(std::all_of(blocks[size_t(i)], blocks[size_t(i)] + bytes, [i](char c) { return c == i; }));
      guarded_free(blocks[size_t(i)]);
    }
  }
  guarded_free(nullptr);
}

TEST_CASE("guarded memory: what oversteps a block ends the process", "[engine]") {
  if (sanitized) return;  // sanitizers end it in their own way
  const long page = sysconf(_SC_PAGESIZE);
  std::vector<volatile char*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(static_cast<char*>(guarded_allocate(1000)));
  CHECK(signal_of([] {}) == 0);
  for (volatile char* block : blocks) {
    CHECK(signal_of([=] { (void)block[page]; }) == SIGSEGV);
    CHECK(signal_of([=] { (void)block[-page]; }) == SIGSEGV);
    for (int beside : {-1, 1000}) {  // in a page that is the block's, or not
      const int end = signal_of([=] {
        block[beside] = 1;
        guarded_free(const_cast<char*>(block));
      });
      CHECK((end == SIGABRT || end == SIGSEGV));
    }
    CHECK(signal_of([block] {
            guarded_free(const_cast<char*>(block));
            (void)block[0];
          }) == SIGSEGV);
    CHECK(signal_of([block] {
            guarded_free(const_cast<char*>(block));
            guarded_free(const_cast<char*>(block));
          }) == SIGABRT);
  }
  // One in four begins at a guard page, and the others' last line ends at one.
  int at_begin = 0, at_end = 0;
  for (volatile char* block : blocks) {
    at_begin += signal_of([block] { (void)block[-1]; }) == SIGSEGV;
    at_end += signal_of([block] { (void)block[1024]; }) == SIGSEGV;
    guarded_free(const_cast<char*>(block));
  }
  CHECK(at_begin == 1);
  CHECK(at_end == 3);
}

}  // namespace guarded_memory_test
