// Waiting by token in a child of a fork, which has none of the engine's threads.
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <future>
#include <memory>

#include "kaon/asio.h"
#include "kaon/ops/functions.h"

namespace array_wait_fork_test {

using namespace kaon;
namespace asio = boost::asio;

TEST_CASE("async_wait: a handler is not kept by a wait that could not begin", "[wait][async]") {
#if defined(__SANITIZE_THREAD__)
  return;  // a child of a process with threads must not start any there
#endif
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  std::promise<void> gate;
  NDArray x = NDArray::empty({2});
  engine.push({write(x.var())}, [&gate](RunContext&) { gate.get_future().wait(); });
  const pid_t child = fork();
  if (child == 0) {
    asio::io_context io(1);
    auto token = std::make_shared<int>();
    bool is_told = false;
    try {
      x.async_wait(asio::bind_executor(io.get_executor(), [token](std::exception_ptr) {}));
    } catch (const StateError&) {
      is_told = true;
    }
    std::_Exit(is_told && token.use_count() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  gate.set_value();
  engine.wait_all();
  CHECK(status == 0);
}

}  // namespace array_wait_fork_test
