// A training step of a table of 1,000,000 x 64 of which a batch reads 1,024 rows: a row_sparse gradient beside a dense
// one.
#include "kaon/bench/hybrid/hybrid_parts.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"

namespace kaon::bench {
namespace {

constexpr int64_t rows = 1'000'000, width = 64, batch = 1024;

struct Table {
  explicit Table(bool sparse, const optimizer::Optimizer& o)
      : net(rows, width, {.sparse_grad = sparse}), trainer((net.initialize(), net.collect_params()), o) {
    step();  // makes states and gradient
  }
  void step() {
    autograd::record([&] { return net(ids); }).backward();
    trainer.step(batch);
  }
  double us_per_step(int steps) {
    nd.waitall();
    return seconds([&] {
             for (int i = 0; i < steps; ++i) step();
             nd.waitall();
           }) /
           steps * per_us;
  }
  NDArray ids = nd.random_randint(0, rows, {batch});
  gluon::nn::Embedding net;
  gluon::Trainer trainer;
};

void compare(const char* name, const optimizer::Optimizer& lazy, const optimizer::Optimizer& whole, int threads) {
  Table sparse(true, lazy), dense(false, whole);
  const auto results = interleave(5, {[&] { return sparse.us_per_step(100); }, [&] { return dense.us_per_step(2); }});
  print(name + on_threads(threads), results[0], "us", "dense_gradient", results[1]);
}

}  // namespace

void embedding(int threads) {
  compare("embedding_sgd", optimizer::SGD({.lazy_update = true}), optimizer::SGD(), threads);
  compare("embedding_adam", optimizer::Adam({.lazy_update = true}), optimizer::Adam(), threads);
}

}  // namespace kaon::bench
