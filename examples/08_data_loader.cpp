// Data: samples by index, transformed, shuffled and batched by coroutines while the net computes.
// Prints the batches of two epochs, shuffled by a seed; the digits of the first batch of MNIST; how long 20 batches
// take to load, to compute with, and both together: about the longer of the two; and the message of a sample that
// fails, which arrives with its batch.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join
#include <kaon/kaon.h>

#include <thread>

using namespace kaon;
using namespace kaon::gluon::data;
using namespace std::chrono_literals;

// Samples that come from a slow place: each waits 5 ms, and holds no thread meanwhile.
Task<Sample> fetch(int64_t index) {
  co_await sleep_for(5ms);
  co_return Sample(float(index), int(index % 2));
}

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Each batch is loaded, computed with, or both.
Task<double> time_of(DataLoader loader, bool load, bool compute) {
  const auto begin = std::chrono::steady_clock::now();
  NDArray state = nd.zeros({1});
  auto batches = loader.batches();
  for (int64_t i = 0; i < loader.size(); ++i) {
    if (load) co_await batches.next();
    if (!compute) continue;
    auto body = [](RunContext&) { std::this_thread::sleep_for(20ms); };  // stands for a training step
    Engine::current().push({update(state.var())}, body);
  }
  co_await state;
  co_return milliseconds_since(begin);
}

Task<void> asynchronous() {
  DataLoader loader(Dataset(80, fetch), {.batch_size = 4, .workers = 1});
  const double load = co_await time_of(loader, true, false);
  const double compute = co_await time_of(loader, false, true);
  const double both = co_await time_of(loader, true, true);
  fmt::print("20 batches: loading {:.0f} ms, computing {:.0f} ms, both {:.0f} ms\n\n", load, compute, both);

  Dataset broken(8, [](int64_t i) {
    if (i == 5) throw ValueError("sample 5 is damaged");
    return Sample(float(i));
  });
  DataLoader fails(broken, {.batch_size = 2});
  auto batches = fails.batches();
  try {
    while (auto batch = co_await batches.next()) fmt::print("batch {}\n", batch->data);
  } catch (const ValueError& e) {
    fmt::print("ValueError: {}\n", e.what());
  }
}

int main() {
  // Anything that gives a sample for an index is a dataset. The order depends on seed and epoch, never on the workers.
  Dataset numbers(7, [](int64_t i) { return Sample(float(i * i), int(i)); });
  DataLoader loader(numbers, {.batch_size = 3, .shuffle = true, .workers = 2, .seed = 1});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (Batch& batch :
         loader.sync()) {  // in plain code; a coroutine writes: while (auto batch = co_await batches.next())
      fmt::print("epoch {}: labels {}\n", epoch, fmt::join(batch.label.asvector<int>(), " "));
    }
  }

  auto mnist = vision::MNIST(KAON_DATA_DIR "/mnist-10k").transform_first(vision::transforms::to_tensor);
  DataLoader digits(mnist, {.batch_size = 10});
  for (Batch& batch : digits.sync()) {
    fmt::print("\nMNIST: {} batches of {}, the first: {}\n", digits.size(), batch.data.shape().str(),
               fmt::join(batch.label.asvector<int>(), " "));
    break;  // dropping the loop stops the loading
  }
  sync_wait(asynchronous());
}
