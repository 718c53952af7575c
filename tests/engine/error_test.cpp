// Failures: they stick to what was written, reach every wait, and are never lost.
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace error_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

struct UserError {
  int code;
};
struct UserKind : ValueError {
  using ValueError::ValueError;
};
struct Lost : Error, OneEvent {
  using Error::Error;
};

void push_failing(Engine& engine, Var& v, const char* text, const OpLabel& label = {}) {
  engine.push({write(v)}, [text](RunContext&) { throw ValueError(text); }, {.label = label});
}

// What the aggregate of wait_all() says, one message per failure; empty when it throws nothing.
std::vector<std::string> aggregate_of(Engine& engine) {
  std::vector<std::string> messages;
  try {
    engine.wait_all();
  } catch (const AggregateError& e) {
    for (const auto& part : e.errors()) {
      messages.push_back(part->message);
      CHECK_THAT(e.what(), Contains(part->message));
    }
  }
  return messages;
}

}  // namespace

TEST_CASE("users row 1: wait_all reports every failure once, in push order, and arrays stay failed", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var bad[3], good;
    int value = 0;
    push_failing(engine, bad[0], "[a] first");
    push_failing(engine, bad[1], "[b] second");
    engine.push({write(good)}, [&](RunContext&) { value = 5; });
    push_failing(engine, bad[2], "[c] third");

    auto messages = aggregate_of(engine);
    REQUIRE(messages.size() == 3);
    CHECK_THAT(messages[0], Contains("[a] first"));
    CHECK_THAT(messages[1], Contains("[b] second"));
    CHECK_THAT(messages[2], Contains("[c] third"));
    CHECK_NOTHROW(engine.wait_all());
    for (int repeat = 0; repeat < 2; ++repeat) {
      CHECK_THROWS_WITH(engine.wait(bad[0]), Contains("[a] first"));
      CHECK_THROWS_WITH(engine.wait(bad[1]), Contains("[b] second"));
      CHECK_THROWS_WITH(engine.wait(bad[2]), Contains("[c] third"));
    }
    CHECK_NOTHROW(engine.wait(good));
    CHECK(value == 5);
    CHECK(engine.stats().failed == 3);
    CHECK(engine.stats().completed == 4);
  });
}

TEST_CASE("users row 1: a wait that has thrown a failure takes it out of wait_all", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b;
    push_failing(engine, a, "[a] seen");
    push_failing(engine, b, "[b] unseen");
    CHECK_THROWS_AS(engine.wait(a), ValueError);
    auto messages = aggregate_of(engine);
    REQUIRE(messages.size() == 1);
    CHECK_THAT(messages[0], Contains("[b] unseen"));
  });
}

TEST_CASE("users row 2: a failure is inherited, and a full overwrite heals that array alone", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b, c, d;
    bool ran = false;
    push_failing(engine, a, "[root] fails");
    engine.push({read(a), write(b)}, [&](RunContext&) { ran = true; });
    engine.push({read(b), write(c)}, [&](RunContext&) { ran = true; });
    engine.push({read(b), write(d)}, [&](RunContext&) { ran = true; });
    CHECK_THROWS_WITH(engine.wait(c), Contains("[root] fails"));
    CHECK_THROWS_WITH(engine.wait(d), Contains("[root] fails"));
    CHECK_THROWS_WITH(engine.wait(c), Contains("[root] fails"));
    CHECK_FALSE(ran);
    engine.push({write(c)}, [](RunContext&) {});
    CHECK_NOTHROW(engine.wait(c));
    CHECK_THROWS_AS(engine.wait(d), ValueError);
    CHECK_THROWS_AS(engine.wait(b), ValueError);
    CHECK_THROWS_AS(engine.wait(a), ValueError);
    CHECK_NOTHROW(engine.wait_all());
    CHECK(engine.stats().failed == 1);  // inherited failures are not counted
    engine.push({read(c), write(a), write(b), write(d)}, [](RunContext&) {});
    for (Var* v : {&a, &b, &c, &d}) CHECK_NOTHROW(engine.wait(*v));
    engine.wait_all();  // before the vars go: an operation may still be leaving one that nobody waited for
  });
}

TEST_CASE("error: an overwrite that fails replaces the failure", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    push_failing(engine, v, "[old] failure");
    push_failing(engine, v, "[new] failure");
    CHECK_THROWS_WITH(engine.wait(v), Contains("[new] failure"));
    auto messages = aggregate_of(engine);
    REQUIRE(messages.size() == 1);
    CHECK_THAT(messages[0], Contains("[old] failure"));
  });
}

TEST_CASE("users row 3: every type of exception arrives as itself and the engine goes on", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var vars[5], heir;
    engine.push({write(vars[4])}, [](RunContext&) { throw UserKind("[test] of a user's own"); });
    engine.push({read(vars[4]), write(heir)}, [](RunContext&) {});
    CHECK_THROWS_AS(engine.wait(vars[4]), UserKind);
    CHECK_THROWS_AS(engine.wait(heir), UserKind);
    engine.push({write(vars[4]), write(heir)}, [](RunContext&) {});
    engine.push({write(vars[0])}, [](RunContext&) { throw std::bad_alloc(); });
    engine.push({write(vars[1])}, [](RunContext&) { throw 42; });
    engine.push({write(vars[2])}, [](RunContext&) { throw UserError{7}; });
    engine.push({write(vars[3])}, [](RunContext&) { throw MemoryError("[test] none left"); });
    CHECK_THROWS_AS(engine.wait(vars[0]), std::bad_alloc);
    int number = 0;
    try {
      engine.wait(vars[1]);
    } catch (int n) {
      number = n;
    }
    CHECK(number == 42);
    try {
      engine.wait(vars[2]);
    } catch (const UserError& e) {
      number = e.code;
    }
    CHECK(number == 7);
    CHECK_THROWS_AS(engine.wait(vars[3]), MemoryError);

    int count = 0;
    for (int i = 0; i < 1000; ++i) {
      engine.push({i % 2 ? write(vars[0]) : write(vars[1])}, [](RunContext&) {});
      engine.push({write(vars[2])}, [&count](RunContext&) { ++count; });
    }
    CHECK_NOTHROW(engine.wait_all());
    CHECK(count == 1000);
    CHECK_NOTHROW(engine.wait(vars[0]));
  });
}

TEST_CASE("users row 4: the message names the operator, its block and where it was pushed", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b;
    const int line = __LINE__ + 1;
    push_failing(engine, a, "[dot] shapes (2, 3) and (4, 5)", {.name = "dot", .block_path = "body.fc2"});
    engine.push({read(a), write(b)}, [](RunContext&) {});
    std::string text;
    try {
      engine.wait(b);
    } catch (const ValueError& e) {
      text = e.what();
    }
    CHECK_THAT(text, Contains("[dot] shapes (2, 3) and (4, 5)"));
    CHECK_THAT(text, Contains("body.fc2"));
    CHECK_THAT(text, Contains("error_test.cpp:" + std::to_string(line)));

    // by default the label takes the line of the push itself
    engine.push({write(a)}, [](RunContext&) { throw ShapeError("[x] wrong"); });
    const int here = __LINE__ - 1;
    CHECK_THROWS_WITH(engine.wait(a), Contains("error_test.cpp:" + std::to_string(here)));

    // types that are not Kaon's keep their own text when thrown; the record has the rest
    engine.push({write(b)}, [](RunContext&) { throw std::runtime_error("plain"); }, {.label = {.name = "custom"}});
    auto messages = aggregate_of(engine);
    REQUIRE(messages.size() == 1);
    CHECK_THAT(messages[0], Contains("plain") && Contains("[custom]") && Contains("error_test.cpp:"));
    CHECK_THROWS_WITH(engine.wait(b), "plain");
  });
}

TEST_CASE("users row 4: what inherits a failure shows its cause and its own place, and no other", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var vars[4];
    const int root = __LINE__ + 1;
    push_failing(engine, vars[0], "[dot] shapes (2, 3) and (4, 5)", {.name = "dot", .block_path = "body.fc2"});
    int lines[4] = {root};
    const char* names[] = {"dot", "first", "second", "third"};
    for (int i = 1; i < 4; ++i) {
      lines[i] = __LINE__ + 1;
      engine.push({read(vars[i - 1]), write(vars[i])}, [](RunContext&) {}, {.label = {.name = names[i]}});
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      CHECK_THROWS_AS(engine.wait(vars[3]), ValueError);
      std::string text;
      try {
        engine.wait(vars[3]);
      } catch (const ValueError& e) {
        text = e.what();
      }
      CHECK(text == "[dot] shapes (2, 3) and (4, 5) while running [dot] in body.fc2, pushed at error_test.cpp:" +
                        std::to_string(lines[0]) +
                        "; inherited by [third], pushed at error_test.cpp:" + std::to_string(lines[3]));
      CHECK_THROWS_WITH(engine.wait(vars[0]), !Contains("inherited"));
      CHECK_THROWS_WITH(engine.wait(vars[1]), Contains("inherited by [first]"));
    }
    CHECK_NOTHROW(engine.wait_all());  // the cause has been reported

    // two causes
    Var pair;
    push_failing(engine, vars[2], "[other] fails");
    engine.push({read(vars[3]), read(vars[2]), write(pair)}, [](RunContext&) {}, {.label = {.name = "add"}});
    CHECK_THROWS_AS(engine.wait(pair), AggregateError);
    CHECK_THROWS_WITH(engine.wait(pair), Contains("2 operations failed") && Contains("[dot]") &&
                                             Contains("[other] fails") && Contains("; inherited by [add]") &&
                                             !Contains("[third]"));
    // an operation that meets an aggregate in its own body says where it was pushed as well
    Var waiting;
    engine.push({write(waiting)}, [&](RunContext&) { engine.wait(pair); }, {.label = {.name = "waiting"}});
    CHECK_THROWS_AS(engine.wait(waiting), AggregateError);
    CHECK_THROWS_WITH(engine.wait(waiting), Contains("[dot]") && Contains("while running [waiting]"));
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("errors: what one event has failed is thrown as its own kind, however many operations it was", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b, both, other, mixed;
    const auto lose = [&](Var& v, const char* text) {
      engine.push({write(v)}, [text](RunContext&) { throw Lost(text); });
    };
    lose(a, "[a] lost");
    lose(b, "[b] lost");
    engine.push({read(a), read(b), write(both)}, [](RunContext&) {}, {.label = {.name = "add"}});
    CHECK_THROWS_AS(engine.wait(both), Lost);
    CHECK_THROWS_WITH(engine.wait(both), Contains("[a] lost"));
    CHECK_NOTHROW(engine.wait_all());
    lose(a, "[a] lost again");
    lose(b, "[b] lost again");
    CHECK_THROWS_AS(engine.wait_all(), Lost);
    CHECK_NOTHROW(engine.wait_all());
    // beside another failure it is one of several
    push_failing(engine, other, "[other] fails");
    engine.push({read(a), read(other), write(mixed)}, [](RunContext&) {});
    CHECK_THROWS_AS(engine.wait(mixed), AggregateError);
  });
}

TEST_CASE("users row 6: a failure in the middle of a chain releases all who wait", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < rounds(20); ++round) {
      Gate gate;
      std::vector<Var> outputs(10);
      int values[10] = {};
      std::atomic<int> wrong{0};
      std::vector<std::thread> waiters;
      for (size_t i = 0; i < 10; ++i) {
        auto body = [&, i](RunContext&) {
          if (i == 0) gate.wait();
          if (i == 5) throw ValueError("[op6] fails");
          values[i] = 1;
        };
        if (i == 0) engine.push({write(outputs[i])}, body);
        else engine.push({read(outputs[i - 1]), write(outputs[i])}, body);
      }
      for (size_t w = 0; w < 20; ++w) {
        waiters.emplace_back([&, at = w % 10] {
          bool threw = false;
          try {
            engine.wait(outputs[at]);
          } catch (const ValueError&) {
            threw = true;
          }
          wrong += threw != (at >= 5) || (!threw && values[at] != 1);
        });
      }
      gate.open();
      for (std::thread& t : waiters) t.join();
      CHECK(wrong == 0);
      CHECK_NOTHROW(engine.wait_all());
      for (Var& v : outputs) engine.push({write(v)}, [](RunContext&) {});
      CHECK_NOTHROW(engine.wait_all());
      for (Var& v : outputs) CHECK_NOTHROW(engine.wait(v));
    }
  });
}

TEST_CASE("users row 5: a failure does not touch unrelated work", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var bad, good;
    int value = 0;
    for (int i = 0; i < 100; ++i) {
      push_failing(engine, bad, "[bad] fails");
      engine.push({update(good)}, [&](RunContext&) { ++value; });
    }
    CHECK_NOTHROW(engine.wait(good));
    CHECK(value == 100);
    CHECK(aggregate_of(engine).size() == 100);
  });
}

TEST_CASE("error: an update of a failed array fails, and a failing update fails its array", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    bool ran = false;
    push_failing(engine, v, "[init] fails");
    engine.push({update(v)}, [&](RunContext&) { ran = true; });
    CHECK_THROWS_WITH(engine.wait(v), Contains("[init] fails"));
    CHECK_FALSE(ran);

    Var w;
    engine.push({update(w)}, [](RunContext&) { throw ValueError("[step] fails"); });
    CHECK_THROWS_WITH(engine.wait(w), Contains("[step] fails"));

    Var input, target;  // without `transactional` a failed input fails what is updated
    push_failing(engine, input, "[input] fails");
    engine.push({read(input), update(target)}, [](RunContext&) {});
    CHECK_THROWS_WITH(engine.wait(target), Contains("[input] fails"));
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 2: a transactional operation with a failed input leaves its targets alone", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var gradient, parameter[2];
    double value[2] = {1, 2};
    auto step = [&](RunContext&) { value[0] = value[1] = 9; };
    PushOptions transactional{.label = {.name = "step"}, .transactional = true};
    push_failing(engine, gradient, "[backward] fails");
    engine.push({read(gradient), update(parameter[0]), update(parameter[1])}, step, transactional);
    CHECK_NOTHROW(engine.wait(parameter[0]));
    CHECK_NOTHROW(engine.wait(parameter[1]));
    CHECK(value[0] == 1);
    CHECK(value[1] == 2);
    CHECK(aggregate_of(engine).size() == 1);

    engine.push({write(gradient)}, [](RunContext&) {});
    engine.push({read(gradient), update(parameter[0]), update(parameter[1])}, step, transactional);
    CHECK_NOTHROW(engine.wait_all());
    CHECK(value[0] == 9);

    // its own failure does fail them: they may be half written
    engine.push(
        {read(gradient), update(parameter[0])}, [](RunContext&) { throw ValueError("[step] fails"); }, transactional);
    CHECK_THROWS_AS(engine.wait(parameter[0]), ValueError);
    CHECK_NOTHROW(engine.wait(parameter[1]));
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 4: several failed inputs arrive as one aggregate in push order", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var inputs[3], pair, all;
    push_failing(engine, inputs[2], "[x] first");
    push_failing(engine, inputs[0], "[y] second");
    push_failing(engine, inputs[1], "[z] third");
    engine.push({read(inputs[0]), read(inputs[2]), write(pair)}, [](RunContext&) {});
    engine.push({read(pair), read(inputs[1]), read(inputs[0]), write(all)}, [](RunContext&) {});
    auto count = [&](Var& v) {
      std::vector<std::string> messages;
      try {
        engine.wait(v);
      } catch (const AggregateError& e) {
        for (const auto& part : e.errors()) messages.push_back(part->message);
      }
      return messages;
    };
    auto two = count(pair);
    REQUIRE(two.size() == 2);
    CHECK_THAT(two[0], Contains("[x] first"));
    CHECK_THAT(two[1], Contains("[y] second"));
    auto three = count(all);
    REQUIRE(three.size() == 3);
    CHECK_THAT(three[0], Contains("[x] first"));
    CHECK_THAT(three[1], Contains("[y] second"));
    CHECK_THAT(three[2], Contains("[z] third"));
    CHECK_NOTHROW(engine.wait_all());  // all three have been reported
    CHECK_THROWS_AS(engine.wait(inputs[1]), ValueError);
  });
}

TEST_CASE("error: failures that were reported are not kept", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto token = std::make_shared<int>();
    struct Carrier {
      std::shared_ptr<int> token;
    };
    Var v;
    for (int i = 0; i < 1000; ++i) {
      engine.push({write(v)}, [token](RunContext&) { throw Carrier{token}; });
      CHECK_THROWS_AS(engine.wait(v), Carrier);
    }
    CHECK(token.use_count() < 200);
    engine.push({write(v)}, [](RunContext&) {});
    engine.wait_all();
    CHECK(token.use_count() == 1);
  });
}

TEST_CASE("error: kinds keep their type with added text", "[engine]") {
  const std::exception_ptr e = IndexError("[take] index 5").with_context(" while testing");
  CHECK_THROWS_AS(std::rethrow_exception(e), IndexError);
  CHECK_THROWS_WITH(std::rethrow_exception(e), "[take] index 5 while testing");
  CHECK_THROWS_AS(std::rethrow_exception(Error("a").with_context("b")), Error);
  CHECK(intern("body.fc1") == intern(std::string("body.") + "fc1"));
  CHECK(std::string(intern("body.fc1")) == "body.fc1");
}

}  // namespace error_test
