// A program that opens the namespaces of Kaon and of the standard library at once, beside POSIX. It compiles, and
// returns 0: no name at the root of kaon hides one that such programs use. (random() is ::random(): kaon::random, as
// MXNet has it, is a namespace.)
#include <fcntl.h>
#include <kaon/asio.h>
#include <kaon/kaon.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <ranges>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <stack>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

using namespace kaon;
using namespace std;

// Names that such a program has for its own things. Operators have them too, in kaon::op.
struct Log {
  vector<string> lines;
  void add(const string& line) { lines.push_back(line); }
};
struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) { sum += value, ++count; }
  double value() const { return sum / count; }
};
struct Clip {
  int first = 0, last = 0;
  int frames() const { return last - first; }
};
struct Dropout {
  string reason = "none";
};

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  if (!holds) ++failures, fprintf(stderr, "both_namespaces: %s\n", what);
}

Task<float> first_of(NDArray x) { co_return (co_await x.host<float>())[0]; }

struct Scaled : gluon::HybridBlock<Scaled> {
  gluon::nn::Dense dense = child("dense", gluon::nn::Dense(2, {.activation = "relu"}));
  auto hybrid_forward(auto F, auto x) { return F.maximum(dense(x), 0.5) * 2; }
};

void arrays() {
  NDArray x = nd.zeros({2, 3}), y = nd.ones({2, 3}, {.dtype = DType::float32});
  x += y * 3;
  vector<float> host = x.asvector<float>();
  expect(accumulate(host.begin(), host.end(), 0.f) == 18, "accumulate");
  expect(sync_wait(first_of(x)) == 3, "co_await");
  NDArray copied = x.copy();
  swap(x, copied);
  swap(x, copied);
  auto held = ref(x);
  expect(held.get().size() == 6 && size(host) == 6 && data(host) != nullptr && !empty(host), "size, data, empty");
  tuple pair_of(move(copied), 1);
  expect(get<0>(pair_of).shape() == Shape(2, 3), "tuple");
  optional<NDArray> maybe = nd.square(x);
  expect(maybe->sum().asscalar<float>() == 54, "optional");
  map<string, NDArray> named{{"x", x}};
  expect(named.at("x").dtype() == DType::float32, "map");
  cout << "";
  expect(to_string(7) == "7" && to_string(x).size() > 10, "to_string");
  expect(max(2, 3) == 3 && min(2, 3) == 2 && clamp(9, 1, 5) == 5 && abs(-2) == 2, "max, min, clamp, abs");
  expect(sin(0.0) == 0 && exp(0.0) == 1 && fabs(-1.5) == 1.5 && round(1.4) == 1, "the functions of cmath");
}

void names_of_operators() {
  Log log;
  Mean mean;
  for (const float v : nd.clip(nd.arange(4), 1, 2).asvector<float>()) mean.add(v), log.add(to_string(v));
  expect(mean.value() == 1.5 && log.lines.size() == 4, "Log, Mean");
  const Clip clip{.first = 10, .last = 25};
  const vector<Dropout> dropouts(2, Dropout{.reason = "weak signal"});
  expect(clip.frames() == 15 && dropouts[1].reason == "weak signal", "Clip, Dropout");
  const NDArray x = nd.array({-1, 1, 3});
  expect(nd.call(op::Clip{.a_min = 0, .a_max = 2}, x).sum().asscalar<float>() == 3, "op::Clip");
  expect(nd.call(op::Mean{}, x).asscalar<float>() == 1 && nd.mean(x).asscalar<float>() == 1, "op::Mean");
  expect(nd.call(op::Log{}, nd.ones({2})).sum().asscalar<float>() == 0, "op::Log");
  expect(nd.Dropout(x, {.p = 0.5}).sum().asscalar<float>() == 3, "nd.Dropout outside training");
}

void algorithms() {
  vector<int> a(4), b{4, 2, 3, 1}, merged;
  fill(a.begin(), a.end(), 7);
  copy(b.begin(), b.end(), a.begin());
  sort(a.begin(), a.end());
  reverse(b.begin(), b.end());
  transform(a.begin(), a.end(), a.begin(), negate<int>());
  transform(a.begin(), a.end(), b.begin(), a.begin(), plus<>());
  generate(b.begin(), b.end(), [] { return 1; });
  iota(b.begin(), b.end(), 0);
  merge(b.begin(), b.end(), b.begin(), b.end(), back_inserter(merged));
  expect(count(merged.begin(), merged.end(), 3) == 2 && find(b.begin(), b.end(), 2) != b.end(), "count, find");
  expect(all_of(b.begin(), b.end(), [](int v) { return v >= 0; }) && any_of(b.begin(), b.end(), logical_not<int>()),
         "all_of, any_of");
  rotate(b.begin(), b.begin() + 1, b.end());
  replace(b.begin(), b.end(), 0, 9);
  expect(distance(b.begin(), b.end()) == 4 && *next(b.begin()) == 2 && *prev(b.end()) == 9, "distance, next, prev");
  for_each(b.begin(), b.end(), [](int& v) { v = exchange(v, 0); });
  mt19937 generator(1);
  shuffle(b.begin(), b.end(), generator);
  expect(bit_cast<uint32_t>(1.0f) == 0x3f800000 && popcount(7u) == 3, "bit_cast, popcount");
  stack<int> last_in;
  queue<int> first_in;
  last_in.push(1), first_in.push(1);
  auto work = async(launch::deferred, [] { return 5; });
  expect(work.get() == 5, "async");
  this_thread::yield();
  this_thread::sleep_for(chrono::milliseconds(0));
  mutex lock;
  scoped_lock guard(lock);
  variant<int, string> either = 3;
  expect(visit([](const auto&) { return true; }, either), "visit");
  function<int(int)> twice = bind(multiplies<int>(), placeholders::_1, 2);
  expect(invoke(twice, 4) == 8 && apply(twice, tuple(4)) == 8, "function, bind, invoke, apply");
}

void posix() {
  int ends[2];
  char text[3] = {};
  if (pipe(ends) != 0) return expect(false, "pipe");
  expect(write(ends[1], "ok", 2) == 2 && read(ends[0], text, 2) == 2 && strcmp(text, "ok") == 0, "write, read");
  close(ends[0]), close(ends[1]);
  expect(access("/", R_OK) == 0 && getpid() > 0 && ::random() >= 0, "access, getpid, random");
  struct stat info {};
  expect(stat("/", &info) == 0 && index("abc", 'b') != nullptr && ffs(2) == 2, "stat, index, ffs");
  int status = 0;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  expect(waitpid(child, &status, 0) == child && status == 0, "fork, waitpid");
  pollfd none{};
  expect(poll(&none, 0, 0) == 0 && time(nullptr) > 0 && sleep(0) == 0, "poll, time, sleep");
  signal(SIGPIPE, SIG_IGN);
}

void nets() {
  Scaled net;
  net.initialize(init::One());
  net.hybridize();
  const NDArray loss = autograd::record([&] { return gluon::loss::L2Loss()(net(nd.ones({1, 2})), nd.zeros({1, 2})); });
  loss.backward();
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  trainer.step(1);
  expect(net(sym.var("data")).list_arguments().size() == 3, "symbols");
  random::seed(1);
}

}  // namespace

int main() {
  arrays();
  names_of_operators();
  algorithms();
  nets();
  nd.waitall();
  posix();
  return failures;
}
