// Where a coroutine goes on after an await.
#include <boost/asio/io_context.hpp>
#include <thread>
#include <vector>

#include "kaon/asio.h"
#include "kaon/engine/generator.h"
#include "kaon/engine/when.h"
#include "support.h"

namespace resume_test {

using namespace kaon;
using namespace kaon::test;
namespace asio = boost::asio;

namespace {

// Counts the awaits after which this is another thread than before.
class Here {
 public:
  void look(const char* after) {
    if (std::this_thread::get_id() == id_) return;
    UNSCOPED_INFO("elsewhere after " << after);
    ++elsewhere;
  }
  int elsewhere = 0;

 private:
  std::thread::id id_ = std::this_thread::get_id();
};

Task<void> sleep_in_callee(Here& here) {
  co_await sleep_for(200us);
  here.look("sleep_for in a callee");
}
AsyncGenerator<int> sleeping_values(Here& here) {
  for (int i = 0; i < 2; ++i) {
    co_await sleep_for(100us);
    here.look("sleep_for in a generator");
    co_yield i;
  }
}
Task<int> nap(std::chrono::microseconds time) {
  co_await sleep_for(time);
  co_return 1;
}

Task<void> await_everything(Engine& engine, Here& here) {
  here.look("the start");
  Cell cell(engine);
  engine.push({write(cell.var())}, [](RunContext&) { std::this_thread::sleep_for(1ms); });
  co_await cell;
  here.look("an array");
  co_await sleep_for(2ms);
  here.look("sleep_for");
  co_await sleep_for(0ms);
  here.look("sleep_for(0)");
  co_await sleep_for(-1ms);
  here.look("sleep_for(-1)");
  co_await sleep_in_callee(here);
  here.look("a callee that slept");
  auto values = sleeping_values(here);
  while (auto value = co_await values.next()) here.look("a generator's value");
  std::vector<Task<int>> all, some;
  for (int i = 0; i < 3; ++i) all.push_back(nap(i * 100us));
  co_await when_all(std::move(all));
  here.look("when_all");
  for (int i = 0; i < 3; ++i) some.push_back(nap(i * 100us));
  co_await when_any(std::move(some));
  here.look("when_any");
  co_await engine.idle();
  here.look("idle");
  co_await engine.admit();
  here.look("admit");
  // in a scope that is stopped
  std::stop_source source;
  EngineScope scope(engine);
  EngineScope stopped = scope.with_budget(0, source.get_token());
  source.request_stop();
  co_await sleep_for(1ms);
  here.look("sleep_for in a stopped scope");
  bool cancelled = false;
  try {
    co_await engine.admit();
  } catch (const Cancelled&) {
    cancelled = true;
  }
  CHECK(cancelled);
  here.look("admit in a stopped scope");
}

}  // namespace

TEST_CASE("await: whatever a coroutine has awaited, it goes on on its executor", "[engine]") {
  at_thread_counts([](Engine& engine) {
    SECTION("under sync_wait") {
      Here here;
      sync_wait(await_everything(engine, here));
      CHECK(here.elsewhere == 0);
    }
    SECTION("under Asio") {
      Here here;
      asio::io_context io(1);
      AsioAdapter adapter(io.get_executor());
      spawn(await_everything(engine, here), adapter);
      io.run();
      CHECK(here.elsewhere == 0);
    }
  });
}

TEST_CASE("await: under sync_wait inside an operation a coroutine goes on on the operation's thread", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    int elsewhere = -1;
    engine.push({write(v)}, [&](RunContext&) {
      Here here;
      sync_wait(sleep_in_callee(here));
      elsewhere = here.elsewhere;
    });
    engine.wait(v);
    CHECK(elsewhere == 0);
  });
}

}  // namespace resume_test
