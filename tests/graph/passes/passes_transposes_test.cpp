// Transposes folded into matrix products.
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_transposes_test {

using namespace kaon;
using namespace kaon::test;

namespace {

Graph fold(Graph g) { return passes::fold_transposes(std::move(g), false); }

size_t transposes(const Graph& g) { return count(g, "transpose") + count(g, "SwapAxis"); }

const std::vector<std::string> names{"a", "b"};

// Checks values and gradients; gives the number of transposes that are left in a prediction.
size_t left(const Symbol& s, const std::vector<NDArray>& inputs) {
  check_pass(fold, with_gradient(traced(s, names, inputs), {true, true}), inputs);
  return transposes(check_pass(fold, traced(s, names, inputs), inputs));
}

}  // namespace

TEST_CASE("fold_transposes: dot with transposed matrices, for every pair of flags") {
  Symbol a = sym.var("a"), b = sym.var("b");
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      INFO("flags " << ta << tb);
      // the matrices whose product has the shape (4, 5)
      NDArray lhs = numbers(ta ? Shape(3, 4) : Shape(4, 3), 1), rhs = numbers(tb ? Shape(5, 3) : Shape(3, 5), 2);
      const op::Dot op{.transpose_a = ta, .transpose_b = tb};
      CHECK(left(sym.dot(a, b, op), {lhs, rhs}) == 0);
      CHECK(left(sym.dot(sym.transpose(a), b, op), {nd.transpose(lhs), rhs}) == 0);
      CHECK(left(sym.dot(a, sym.transpose(b, {1, 0}), op), {lhs, nd.transpose(rhs)}) == 0);
      CHECK(left(sym.dot(sym.swapaxes(a, 0, -1), sym.transpose(b, {-1, -2}), op),
                 {nd.transpose(lhs), nd.transpose(rhs)}) == 0);
      CHECK(left(sym.dot(sym.transpose(sym.transpose(a)), b, op), {lhs, rhs}) == 0);
      CHECK(left(sym.transpose(sym.dot(a, b, op)), {lhs, rhs}) == 0);
      CHECK(left(sym.dot(sym.transpose(sym.dot(a, b, op)), a, {.transpose_b = ta}), {lhs, rhs}) == 0);
    }
  }
}

TEST_CASE("fold_transposes: batch_dot with the last two axes exchanged, for every pair of flags") {
  Symbol a = sym.var("a"), b = sym.var("b");
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      INFO("flags " << ta << tb);
      NDArray lhs = numbers(ta ? Shape(2, 3, 4) : Shape(2, 4, 3), 1);
      NDArray rhs = numbers(tb ? Shape(2, 5, 3) : Shape(2, 3, 5), 2);
      const op::BatchDot op{.transpose_a = ta, .transpose_b = tb};
      auto turned = [](const NDArray& x) { return nd.transpose(x, {0, 2, 1}); };
      CHECK(left(sym.batch_dot(sym.transpose(a, {0, 2, 1}), b, op), {turned(lhs), rhs}) == 0);
      CHECK(left(sym.batch_dot(a, sym.transpose(b, {0, -1, 1}), op), {lhs, turned(rhs)}) == 0);
      CHECK(left(sym.batch_dot(sym.swapaxes(a, 1, 2), sym.swapaxes(b, -1, -2), op), {turned(lhs), turned(rhs)}) == 0);
      CHECK(left(sym.swapaxes(sym.batch_dot(a, b, op), 1, 2), {lhs, rhs}) == 0);
    }
  }
}

TEST_CASE("fold_transposes: batch 1, one row, one column and nothing") {
  Symbol a = sym.var("a"), b = sym.var("b");
  for (int64_t m : {0, 1, 3}) {
    for (int64_t k : {0, 1, 4}) {
      const std::vector<NDArray> inputs{numbers({k, m}, 1), numbers({k, 2}, 2)};
      CHECK(left(sym.dot(sym.transpose(a), b), inputs) == 0);
      const std::vector<NDArray> batches{numbers({1, k, m}, 1), numbers({1, k, 2}, 2)};
      CHECK(left(sym.batch_dot(sym.transpose(a, {0, 2, 1}), b), batches) == 0);
    }
  }
  for (DType t : {DType::float64, DType::float16, DType::bfloat16}) {
    const std::vector<NDArray> inputs{numbers({3, 4}, 1).astype(t), numbers({3, 2}, 2).astype(t)};
    CHECK(left(sym.dot(sym.transpose(a), b), inputs) == 0);
  }
}

TEST_CASE("fold_transposes: other permutations stay, and so does a product that others read") {
  Symbol a = sym.var("a"), b = sym.var("b");
  const NDArray cube = numbers({2, 2, 2}, 1), matrix = numbers({2, 2}, 2);
  CHECK(left(sym.batch_dot(sym.transpose(a), b), {cube, cube}) == 1);
  CHECK(left(sym.batch_dot(sym.transpose(a, {2, 1, 0}), b), {cube, cube}) == 1);
  CHECK(left(sym.batch_dot(sym.transpose(a, {0, 1, 2}), b), {cube, cube}) == 1);
  CHECK(left(sym.batch_dot(sym.swapaxes(a, 1, 1), b), {cube, cube}) == 1);
  CHECK(left(sym.dot(sym.transpose(a, {0, 2, 1}), b), {cube, matrix}) == 1);  // contracts the last axis of three
  CHECK(left(sym.dot(sym.transpose(b), a), {cube, matrix}) == 0);             // which the other one may have
  CHECK(left(sym.batch_dot(sym.transpose(a, {1, 2, 0}), b), {cube, cube}) == 1);
  CHECK(left(sym.transpose(sym.dot(a, b)), {cube, matrix}) == 1);
  CHECK(left(sym.transpose(sym.dot(a, b)), {cube, numbers({2}, 2)}) == 1);  // a matrix, but not of two
  Symbol product = sym.dot(a, b);
  CHECK(left(Symbol::group({sym.transpose(product), product}), {matrix, matrix}) == 1);
  Symbol turned = sym.transpose(a);
  Graph g = traced(Symbol::group({sym.dot(turned, b), turned}), names, {matrix, matrix});
  g = check_pass(fold, g, {matrix, matrix});
  CHECK(transposes(g) == 1);  // an output
  CHECK(g.nodes[g.outputs[0].node].inputs[0].node == g.inputs[0]);
}

TEST_CASE("fold_transposes: what is updated between the transpose and the product is not read anew") {
  Symbol x = sym.var("x"), mean = sym.var("mean");
  Symbol turned = sym.transpose(sym.reshape(mean, {1, 2}));
  Symbol y = sym.BatchNorm(x, sym.ones({2}), sym.zeros({2}), mean, sym.ones({2}), {});
  const std::vector<NDArray> inputs{numbers({4, 2}, 1), nd.ones({2})};
  Graph g =
      traced(Symbol::group({y, sym.dot(turned, x, {.transpose_a = true, .transpose_b = true})}), {"x", "mean"}, inputs);
  CHECK(transposes(passes::dead_code(passes::fold_transposes(g, true), true)) == 1);
  CHECK(transposes(passes::dead_code(passes::fold_transposes(g, false), false)) == 0);
}

TEST_CASE("fold_transposes: attention has no transpose left, forward or backward") {
  Symbol q = sym.var("a"), k = sym.var("b");
  Symbol scores = sym.softmax(sym.batch_dot(q, sym.transpose(k, {0, 2, 1})));
  const std::vector<NDArray> inputs{numbers({3, 5, 4}, 1), numbers({3, 5, 4}, 2)};
  Graph before = with_gradient(traced(sym.batch_dot(scores, k), names, inputs), {true, true});
  Graph after = check_pass(fold, before, inputs);
  CHECK(transposes(before) == 2);
  CHECK(transposes(after) == 0);
}

}  // namespace passes_transposes_test
