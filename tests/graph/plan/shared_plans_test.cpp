// One graph and its arrays used by many threads at once.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "kaon/engine/storage.h"
#include "kaon/tests/graph/support.h"

namespace shared_plans_test {

using namespace kaon;
using namespace kaon::test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t width = 96;

// Three dense layers; the input is (any, width).
Symbol dense_net() {
  Symbol x = sym.var("data");
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    x = sym.relu(sym.FullyConnected(x, sym.var("w" + n), sym.var("b" + n), {.num_hidden = int(width)}));
  }
  return sym.softmax(x);
}
const std::vector<std::string> dense_names{"data", "w0", "b0", "w1", "b1", "w2", "b2"};

std::vector<NDArray> dense_parameters() {
  std::vector<NDArray> p;
  for (uint32_t i = 0; i < 6; ++i) p.push_back(numbers(i % 2 ? Shape(width) : Shape(width, width), 10 + i));
  return p;
}

std::vector<NDArray> inputs_of(const NDArray& x, const std::vector<NDArray>& p) {
  std::vector<NDArray> all{x};
  all.insert(all.end(), p.begin(), p.end());
  return all;
}

// `calls` calls on each of 16 threads, of three shapes in turn, four of them under way at a time. All results are those
// of a serial engine; the parameters stay where they are, once.
void share(int calls) {
  const std::vector<NDArray> parameters = dense_parameters();
  const int batches[] = {1, 3, 16};
  std::vector<NDArray> inputs;
  std::vector<std::vector<float>> expected;
  {
    Engine serial({.threads = 0});
    EngineScope scope(serial);
    CachedGraph graph(dense_net(), dense_names, {.static_alloc = true}, "net");
    for (int n : batches) {
      expected.push_back(floats(call(graph, inputs_of(numbers({n, width}, uint32_t(n)), dense_parameters()))[0]));
    }
  }
  for (int n : batches) inputs.push_back(numbers({n, width}, uint32_t(n)));
  CachedGraph graph(dense_net(), dense_names, {.static_alloc = true}, "net");
  nd.waitall();
  const size_t before = Storage::cpu().stats().live;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < size_t(calls); i += 4) {
        NDArray results[4];
        for (size_t j = 0; j < 4; ++j) results[j] = call(graph, inputs_of(inputs[(t + i + j) % 3], parameters))[0];
        for (size_t j = 0; j < 4; ++j) wrong += floats(results[j]) != expected[(t + i + j) % 3];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  const PlanStats stats = graph.stats();
  CHECK(stats.hits + stats.misses == 16 * uint64_t(calls));
  nd.waitall();
  size_t arenas = 0;
  for (const NDArray& x : inputs) {
    call(graph, inputs_of(x, parameters))[0].wait_to_read();
    arenas += graph.plan()->num_arenas() * (graph.plan()->memory().arena_bytes + 1024);
  }
  CHECK(graph.stats().evictions == 0);
  nd.waitall();
  // beside them the weights in the layouts of three shapes, once each and not once for every thread
  size_t layouts = 0;
  for (const NDArray& p : parameters) layouts += std::size(batches) * (size_t(p.size()) * sizeof(float) + 64);
  CHECK(Storage::cpu().stats().live <= before + layouts + arenas + arenas / 4);
}

// Things handed from one thread to another; nullopt ends.
template <class T>
class Channel {
 public:
  void put(std::optional<T> item) {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    filled_.notify_one();
  }
  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !items_.empty(); });
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::optional<T>> items_;
};

// How many threads of this process are running or ready to, the calling one left out.
int runnable_threads() {
  int count = 0;
  const std::string own = std::to_string(gettid());
  std::error_code gone;  // threads may end meanwhile
  for (const auto& task : fs::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == own) continue;
    std::ifstream in(task.path() / "stat");
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t name_end = text.rfind(')');
    count += name_end != text.npos && name_end + 2 < text.size() && text[name_end + 2] == 'R';
  }
  return count;
}

int count_threads() { return int(std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator())); }

// "hash of the outputs, threads of the process" of 16 predictions at once.
std::string predictions() {
  CachedGraph graph(dense_net(), dense_names, {.static_alloc = true}, "net");
  const std::vector<NDArray> parameters = dense_parameters();
  std::vector<NDArray> outputs;
  for (uint32_t i = 0; i < 16; ++i) outputs.push_back(call(graph, inputs_of(numbers({64, width}, i), parameters))[0]);
  uint64_t hash = 14695981039346656037u;
  for (const NDArray& y : outputs) {
    for (float v : floats(y)) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 1099511628211u;
  }
  return fmt::format("{:016x}, {} threads", hash, count_threads());
}

constexpr const char* child_variable = "KAON_SHARED_PLANS_TEST_CHILD";

}  // namespace

TEST_CASE("users row 33: 16 threads on one model with 3 shapes: the bits of a serial run, parameters counted once") {
  share(60);
}

TEST_CASE("users row 33: 16 threads with 2000 calls each", "[slow]") { share(2000); }

TEST_CASE("users row 34: arrays made on one thread, used on the second, freed on the third") {
  CachedGraph graph(sym.tanh(sym.dot(sym.var("data"), sym.var("weight"))), {"data", "weight"},
                    {.static_alloc = true, .exact = true}, "net");
  const NDArray weight = numbers({8, 8}, 1);
  struct Used {
    NDArray x, planned, imperative, gradient;
  };
  Channel<NDArray> made;
  Channel<Used> used;
  std::thread first([&] {
    for (uint32_t i = 0; i < 300; ++i) made.put(numbers({4, 8}, i % 7));
    made.put(std::nullopt);
  });
  std::thread second([&] {
    while (std::optional<NDArray> x = made.take()) {
      x->attach_grad();
      NDArray y = autograd::record([&] { return call(graph, {*x, weight})[0]; });
      y.backward();
      used.put(Used{*x, call(graph, {*x, weight})[0], nd.tanh(nd.dot(*x, weight)), x->grad()});
    }
    used.put(std::nullopt);
  });
  int wrong = 0, count = 0;
  while (std::optional<Used> u = used.take()) {
    if (++count % 2) wrong += !same_bits(u->planned, u->imperative);  // the others die with their work still to be done
    if (count % 3 == 0) wrong += floats(u->gradient).size() != 32;
  }
  first.join();
  second.join();
  CHECK(count == 300);
  CHECK(wrong == 0);
}

TEST_CASE("users row 34: threads that come and go, each with its own first call") {
  CachedGraph graph(dense_net(), dense_names, {.static_alloc = true}, "net");
  const std::vector<NDArray> parameters = dense_parameters();
  const NDArray x = numbers({1, width});
  const std::vector<float> expected = floats(call(graph, inputs_of(x, parameters))[0]);
  auto timed = [&] {
    const auto begin = Clock::now();
    const std::vector<float> y = floats(call(graph, inputs_of(x, parameters))[0]);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    return std::pair(y == expected, us);
  };
  auto median = [](std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + int(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  std::vector<double> first, steady;
  bool right = true;
  NDArray kept;  // of a thread that is gone
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      const auto [good, us] = timed();
      right = right && good;
      first.push_back(us);
      kept = call(graph, inputs_of(x, parameters))[0];
    }).join();
    right = right && floats(kept) == expected;
    const auto [good, us] = timed();
    right = right && good;
    steady.push_back(us);
  }
  CHECK(right);
  fmt::print("first call on a new thread {:.1f} us, steady {:.1f} us (medians of 50)\n", median(first), median(steady));
}

TEST_CASE("users row 35: 16 predictions at once keep no more threads busy than there are cores") {
  CachedGraph graph(dense_net(), dense_names, {.static_alloc = true}, "net");
  const std::vector<NDArray> parameters = dense_parameters();
  const NDArray x = numbers({1024, width});
  // one row of the result: looking at all of it would keep the callers themselves busy
  auto row = [](const NDArray& y) { return floats(y.slice(500, 501)); };
  const std::vector<float> expected = row(call(graph, inputs_of(x, parameters))[0]);
  const int most = int(std::thread::hardware_concurrency()) + 2;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, calls{0};
  auto sampled = [&](std::vector<std::thread> threads) {  // ascending
    std::vector<int> seen;
    while (calls < 16) std::this_thread::yield();
    for (int i = 0; i < 200; ++i) {
      seen.push_back(runnable_threads());
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    done = true;
    for (std::thread& t : threads) t.join();
    done = false, calls = 0;
    std::sort(seen.begin(), seen.end());
    return seen;
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] {  // all of one thread
    while (!done) {
      std::vector<NDArray> outputs;
      for (int i = 0; i < 16; ++i) outputs.push_back(call(graph, inputs_of(x, parameters))[0]);
      for (const NDArray& y : outputs) wrong += row(y) != expected;
      calls += 16;
    }
  });
  const std::vector<int> of_one = sampled(std::move(threads));
  CHECK(of_one.back() <= most);
  threads.clear();
  for (int t = 0; t < 16; ++t) {  // each of a thread of its own, which sleeps until its result is there
    threads.emplace_back([&] {
      while (!done) {
        wrong += row(call(graph, inputs_of(x, parameters))[0]) != expected;
        ++calls;
      }
    });
  }
  const std::vector<int> of_many = sampled(std::move(threads));
  CHECK(of_many[of_many.size() / 2] <= most);  // one that has just been woken runs beside those that compute
  CHECK(wrong == 0);
  fmt::print("runnable threads: at most {}; with 16 callers {} (median), {} (95 %), {} (most)\n", of_one.back(),
             of_many[100], of_many[190], of_many.back());
}

TEST_CASE("users row 35: OMP_NUM_THREADS changes neither results nor threads") {
  if (std::getenv(child_variable)) {
    fmt::print("predictions: {}\n", predictions());
    return;
  }
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  auto output_with = [&](const std::string& setting) {
    const std::string command =
        fmt::format("{}=1 {} '{}' 'users row 35: OMP_NUM_THREADS*' 2>&1", child_variable, setting, program);
    std::string text;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe);
    char buffer[4096];
    while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, n);
    CHECK(pclose(pipe) == 0);
    const size_t begin = text.find("predictions: ");
    INFO(text);
    REQUIRE(begin != text.npos);
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string plain = output_with("env -u OMP_NUM_THREADS");
  for (const char* n : {"1", "2", "7", "64"}) CHECK(output_with(fmt::format("OMP_NUM_THREADS={}", n)) == plain);
}

}  // namespace shared_plans_test
