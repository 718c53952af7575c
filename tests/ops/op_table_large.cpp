// Rows of arrays that are cut into pieces: the result must not depend on who computes them. They have no reference.
#include "kaon/tests/ops/op_table.h"

namespace kaon::test {

Rows large_rows() {
  Rows rows;
  auto add = [&](const auto& op, std::vector<Input> inputs, RowOptions options = {}) {
    rows.emplace_back(op, std::move(inputs), Reference(), std::move(options));
  };
  const Shape wide(301, 701), flat(200003);
  const RowOptions any{.dtypes = numbers}, training{.training = true};
  add(Gelu{}, {in(flat)});
  add(BroadcastMul{}, {in(wide), in({701})}, any);
  add(BroadcastAdd{}, {in({301, 1}), in({1, 701})}, any);
  add(BroadcastDiv{}, {in({1}), in(flat, Fill::nonzero)}, any);
  add(AddN{.num_args = 3}, {in(flat), in(flat), in(flat)}, any);
  for (const Shape& axis : {Shape(), Shape(0), Shape(1)}) {
    add(Sum{.axis = axis}, {in(wide)}, any);
    add(Mean{.axis = axis}, {in(wide)});
    add(Prod{.axis = axis}, {in(wide, Fill::above_one)}, any);
    add(Max{.axis = axis}, {in(wide)}, any);
    add(Norm{.axis = axis}, {in(wide)});
  }
  add(Sum{.axis = {0, 2}}, {in({31, 101, 67})}, any);
  add(ArgMax{.axis = 0}, {in(wide)}, any);
  add(ArgMin{}, {in(wide)}, any);
  add(Transpose{}, {in(wide)}, any);
  add(Concat{.dim = 1, .num_args = 2}, {in(wide), in(wide)}, any);
  add(Take{}, {in({101, 301}), index({1501}, 0, 101)}, any);
  add(Embedding{.input_dim = 50, .output_dim = 129}, {index({33, 47}, 0, 50), in({50, 129})}, any);
  add(GatherNd{}, {in({101, 301}), index({1, 1501}, 0, 101)}, any);
  add(Dot{}, {in({257, 513}), in({513, 129})});
  add(Dot{.transpose_a = true, .transpose_b = true}, {in({257, 65}), in({129, 257})});
  add(BatchDot{}, {in({17, 65, 33}), in({17, 33, 65})});
  add(FullyConnected{.num_hidden = 257}, {in({65, 513}), in({257, 513}), in({257})});
  add(FullyConnected{.num_hidden = 1025}, {in({1, 769}), in({1025, 769}), in({1025})});
  add(Convolution{.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 17}, {in({5, 16, 29, 31}), in({17, 16, 3, 3}), in({17})});
  add(Convolution{.kernel = {5, 5}, .stride = {2, 2}, .num_filter = 6}, {in({16, 1, 28, 28}), in({6, 1, 5, 5}), in({6})});
  for (PoolType type : {PoolType::max, PoolType::avg}) {
    add(Pooling{.kernel = {3, 3}, .pool_type = type, .stride = {2, 2}, .pad = {1, 1}}, {in({5, 17, 33, 31})});
  }
  add(BatchNorm{.fix_gamma = false}, {in({9, 17, 33, 31}), in({17}), in({17}), in({17}), in({17}, Fill::positive)}, training);
  add(LayerNorm{}, {in(wide), in({701}), in({701})});
  for (int axis : {0, 1}) {
    add(Softmax{.axis = axis}, {in(wide)});
    add(LogSoftmax{.axis = axis}, {in(wide)});
  }
  add(SoftmaxCrossEntropy{}, {in(wide), index({301}, 0, 701)});
  add(SoftmaxOutput{.use_ignore = true, .normalization = Normalization::valid}, {in(wide), index({301}, -1, 701)});
  add(LeakyReLU{.act_type = LeakyType::prelu}, {in({33, 17, 401}), in({17})});
  add(LeakyReLU{.act_type = LeakyType::rrelu}, {in(flat)}, training);
  add(Dropout{}, {in(flat)}, training);
  add(RandomNormal{.shape = flat}, {});
  add(RandomUniform{.shape = flat}, {});
  add(RandomRandint{.low = 0, .high = 1000, .shape = flat}, {});
  add(Shuffle{}, {in({3001, 33})}, any);
  add(AdamUpdate{.lr = 0.1}, {in(flat), in(flat), in(flat), in(flat, Fill::positive)});
  add(AllFinite{}, {in(flat), in(wide)});
  return rows;
}

}  // namespace kaon::test
