// What the test table must contain, and that the lists of operators agree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>

#include "kaon/engine/device/backend.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace kaon::test {

Rows all_rows() {
  Rows all;
#define KAON_APPEND(rows, title, tags) \
  for (Row & r : rows()) all.push_back(std::move(r));
  KAON_OP_FAMILIES(KAON_APPEND)
#undef KAON_APPEND
  return all;
}

std::set<std::string> minus(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
  return out;
}

}  // namespace kaon::test

namespace {

using NameSet = std::set<std::string>;

// Attributes by operator: the text of each.
using Texts = std::map<std::string, std::string>;
Texts texts_of(const OpDef& def, const void* attrs) {
  Texts out;
  def.write(attrs, [&](std::string_view name, const std::string& text, bool) { out[std::string(name)] = text; });
  return out;
}

// Read from files and without effect here: choices of other libraries, attributes of one value, the quantiser's ranges,
// and the mark that the fusion pass leaves on nodes of plans.
const NameSet no_effect{"workspace",
                        "cudnn_tune",
                        "cudnn_off",
                        "min_calib_range",
                        "max_calib_range",
                        "__post_ops__",
                        "_contrib_arange_like.ctx",
                        "SequenceReverse.axis",
                        "SpatialTransformer.transform_type",
                        "SpatialTransformer.sampler_type",
                        "im2col_step",
                        "compute_size",
                        "processing_batch_size",
                        "is_int",
                        "order"};

std::string header(const char* name) {
  const std::string text = bytes_of(fs::path(KAON_DATA_DIR).parent_path() / "ops" / name);
  return std::regex_replace(text, std::regex("//[^\n]*"), "");
}

NameSet words(const std::string& text, const char* pattern) {
  NameSet found;
  const std::regex expression(pattern);
  for (std::sregex_iterator i(text.begin(), text.end(), expression), end; i != end; ++i) found.insert((*i)[1]);
  return found;
}

// The C++ names of the operators in all_ops.h.
NameSet listed_operators() {
  NameSet names;
  for (const std::string& list : words(header("all_ops.h"), "using \\w+Ops\\s*=\\s*(?:ops::)?OpList<([^;]*)>;")) {
    names.merge(words(list, "(\\w+)"));
  }
  return names;
}

// And those that the lists of functions call: call(op::Relu{}, x), or as a parameter, const op::Sum& op.
NameSet called_operators() {
  const std::string text = header("array_functions.h") + header("numpy_functions.h") + header("functions.h");
  NameSet names = words(text, "(?:call|call_list|call_array_list|create|update)\\(\\s*(?:op::)?(\\w+)\\{");
  names.merge(words(text, "call_(?:list_)?many\\([^{;]*,\\s*(?:op::)?(\\w+)\\{"));
  names.merge(words(text, "[(,]\\s*(?:const )?(?:op::)?(\\w+)&? op\\b"));
  names.erase("Op");
  return names;
}

bool any_dimension(const Row& row, const Hosts& outputs, bool (*is)(int64_t)) {
  auto has = [&](const Shape& s) { return std::any_of(s.begin(), s.end(), is); };
  return std::any_of(row.inputs.begin(), row.inputs.end(), [&](const Input& i) { return has(i.shape); }) ||
         std::any_of(outputs.begin(), outputs.end(), [&](const Host& h) { return has(h.shape); });
}

// The shapes that an operator makes from nothing, or from flat arrays.
Hosts created(const Row& row) {
  const auto is_flat = [](const Input& i) { return i.shape.ndim() == 1; };
  if (!std::all_of(row.inputs.begin(), row.inputs.end(), is_flat) || row.options.refused) return {};
  std::vector<TensorMeta> in, out(size_t(row.def->num_outputs(row.attrs.get())));
  std::vector<TensorMeta*> inputs;
  const DType usual = row.accepts(DType::float32) ? DType::float32 : DType::float16;
  for (const Input& i : row.inputs) in.push_back({i.shape, i.dtype.value_or(usual)});
  for (TensorMeta& m : in) inputs.push_back(&m);
  InferContext context(row.def->name().data(), row.def->traits, inputs, out);
  row.def->infer(row.attrs.get(), context);
  Hosts made;
  for (const TensorMeta& m : out) made.push_back({m.shape});
  return made;
}

// Arrays that are cut into pieces: the result must not depend on who computes them. They have no reference.
Rows large_rows() {
  Rows rows;
  auto add = [&](const auto& op, std::vector<Input> inputs, RowOptions options = {}) {
    rows.emplace_back(op, std::move(inputs), Reference(), std::move(options));
  };
  const Shape wide(301, 701), flat(200003);
  const RowOptions any{.dtypes = numbers}, training{.training = true};
  add(op::Gelu{}, {in(flat)});
  add(op::BroadcastMul{}, {in(wide), in({701})}, any);
  add(op::BroadcastAdd{}, {in({301, 1}), in({1, 701})}, any);
  add(op::BroadcastDiv{}, {in({1}), in(flat, Fill::nonzero)}, any);
  add(op::AddN{.num_args = 3}, {in(flat), in(flat), in(flat)}, any);
  for (bool reverse : {false, true}) {
    add(op::Scan{.axis = 0, .reverse = reverse}, {in(flat)}, any), add(op::Scan{.axis = 0}, {in(wide)}, any);
    add(op::Scan{.axis = 1, .reverse = reverse}, {in(wide)}, any), add(op::Scan{.axis = 1}, {in({3, 70001})}, any);
  }
  const RowOptions scanned{.dtypes = dtype_bit(DType::float32) | dtype_bit(DType::float64) | dtype_bit(DType::int64)};
  for (const Shape& axis : {Shape(0), Shape(1), Shape(0, 1)}) {
    add(op::Any{.axis = axis}, {in(wide)}), add(op::All{.axis = axis}, {in(wide)});
  }
  add(op::All{}, {in(flat)}), add(op::ProductScan{}, {in(flat, Fill::unit)}, scanned),
      add(op::ExtremeScan{.axis = 1}, {in(wide)}, scanned);
  add(op::Histogram{.bin_cnt = 31, .range = ops::Interval{-2, 2}}, {in(flat)});
  add(op::Quantile{.q = 0.3}, {in(flat)}), add(op::Order{.k = 5, .first = 70001}, {in(flat)});
  add(op::SearchSorted{}, {in({3}, {-1, 0, 1}), in(flat)}),
      add(op::Roll{.shift = Shape(7), .axis = Shape(1)}, {in(wide)}, any);
  for (int axis : {0, 1}) {
    const Shape some = axis == 0 ? Shape(97, 701) : Shape(301, 97);
    add(op::TakeAlongAxis{.axis = axis}, {in(wide), index(some, 0, 301)}, any);
    add(op::PutAlongAxis{.axis = axis, .reduce = Scatter::add}, {in(wide), index(some, 0, 301), in(some)}, any);
  }
  add(op::Tril{}, {in(wide)}, any), add(op::IsNan{}, {in(flat)}), add(op::Arctan2{}, {in(flat), in(flat)});
  add(op::ScatterSetNd{.shape = wide}, {in(wide), in({211, 701}), index({1, 211}, 0, 301)}, any);
  add(op::ScatterSetNd{.shape = flat}, {in(flat), in({90001}), index({1, 90001}, 0, 200003, DType::int32)}, any);
  add(op::RavelMultiIndex{.shape = Shape(3, 5)}, {index({2, 70001}, 0, 3)});
  add(op::UnravelIndex{.shape = Shape(3, 5)}, {index({70001}, 0, 15)});
  add(op::Im2col{.kernel = Shape(3, 3), .stride = Shape(2, 1)}, {in({3, 5, 61, 67})});
  const Shape images(3, 5, 31, 37), grid(3, 2, 41, 43);
  add(op::SampleImages{}, {in(images), in(grid)});
  add(op::BackwardSampleImagesData{.shape = images}, {in({3, 5, 41, 43}), in(grid)});
  add(op::BackwardSampleImagesPositions{}, {in({3, 5, 41, 43}), in(images), in(grid)});
  add(op::Correlation{.max_displacement = 2, .pad_size = 2}, {in(images), in(images)});
  add(op::BackwardCorrelation{.max_displacement = 2, .pad_size = 2}, {in({3, 25, 31, 37}), in(images), in(images)});
  add(op::MaxPoolIndices{.kernel = Shape(3, 3), .stride = Shape(2, 2)}, {in({5, 17, 33, 31})});
  add(op::Col2im{.output_size = Shape(61, 67), .kernel = Shape(3, 3), .stride = Shape(2, 1)}, {in({3, 45, 1950})});
  for (const Shape& axis : {Shape(), Shape(0), Shape(1)}) {
    add(op::Sum{.axis = axis}, {in(wide)}, any);
    add(op::Mean{.axis = axis}, {in(wide)});
    add(op::Prod{.axis = axis}, {in(wide, Fill::above_one)}, any);
    add(op::Max{.axis = axis}, {in(wide)}, any);
    add(op::Norm{.axis = axis}, {in(wide)});
  }
  add(op::Sum{.axis = {0, 2}}, {in({31, 101, 67})}, any);
  // dtypes that count to the number of elements
  const RowOptions broad{.dtypes = dtype_bit(DType::float32) | dtype_bit(DType::int32)};
  add(op::ArgMax{.axis = 0}, {in(wide)}, broad);
  add(op::ArgMin{}, {in(wide)}, broad);
  add(op::Transpose{}, {in(wide)}, any);
  add(op::Concat{.dim = 1, .num_args = 2}, {in(wide), in(wide)}, any);
  add(op::Take{}, {in({101, 301}), index({1501}, 0, 101)}, any);
  add(op::Embedding{.input_dim = 50, .output_dim = 129}, {index({33, 47}, 0, 50), in({50, 129})}, any);
  add(op::GatherNd{}, {in({101, 301}), index({1, 1501}, 0, 101)}, any);
  add(op::Dot{}, {in({257, 513}), in({513, 129})});
  add(op::Dot{.transpose_a = true, .transpose_b = true}, {in({257, 65}), in({129, 257})});
  add(op::BatchDot{}, {in({17, 65, 33}), in({17, 33, 65})});
  add(op::FullyConnected{.num_hidden = 257}, {in({65, 513}), in({257, 513}), in({257})});
  add(op::FullyConnected{.num_hidden = 1025}, {in({1, 769}), in({1025, 769}), in({1025})});
  add(op::Convolution{.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 17},
      {in({5, 16, 29, 31}), in({17, 16, 3, 3}), in({17})});
  add(op::Convolution{.kernel = {5, 5}, .stride = {2, 2}, .num_filter = 6},
      {in({16, 1, 28, 28}), in({6, 1, 5, 5}), in({6})});
  for (PoolType type : {PoolType::max, PoolType::avg}) {
    add(op::Pooling{.kernel = {3, 3}, .pool_type = type, .stride = {2, 2}, .pad = {1, 1}}, {in({5, 17, 33, 31})});
  }
  add(op::BatchNorm{.fix_gamma = false}, {in({9, 17, 33, 31}), in({17}), in({17}), in({17}), in({17}, Fill::positive)},
      training);
  add(op::LayerNorm{}, {in(wide), in({701}), in({701})});
  for (int axis : {0, 1}) {
    add(op::Softmax{.axis = axis}, {in(wide)});
    add(op::LogSoftmax{.axis = axis}, {in(wide)});
  }
  add(op::SoftmaxCrossEntropy{}, {in(wide), index({301}, 0, 701)});
  add(op::SoftmaxOutput{.use_ignore = true, .normalization = Normalization::valid}, {in(wide), index({301}, -1, 701)});
  add(op::LeakyReLU{.act_type = LeakyType::prelu}, {in({33, 17, 401}), in({17})});
  add(op::LeakyReLU{.act_type = LeakyType::prelu}, {in({33, 17, 401}), in({33, 17})});
  add(op::LeakyReLU{.act_type = LeakyType::rrelu}, {in(flat)}, training);
  add(op::Dropout{}, {in(flat)}, training);
  add(op::RandomNormal{.shape = flat}, {});
  add(op::RandomUniform{.shape = flat}, {});
  add(op::RandomRandint{.low = 0, .high = 1000, .shape = flat}, {});
  add(op::RandomGamma{.alpha = 0.7, .shape = flat}, {});
  add(op::RandomExponential{.shape = flat}, {});
  add(op::RandomPoisson{.lam = 30, .shape = flat}, {});
  add(op::SampleNegativeBinomial{.shape = {3, 7}},
      {constant(in({9001}, Fill::above_one)), constant(in({9001}, Fill::unit))});
  add(op::SampleNormal{}, {constant(in(flat)), constant(in(flat, Fill::positive))});
  add(op::SampleUniqueZipfian{.range_max = 5000, .shape = {301, 70}}, {});
  add(op::Shuffle{}, {in({3001, 33})}, any);
  add(op::AdamUpdate{.lr = 0.1}, {in(flat), in(flat), in(flat), in(flat, Fill::positive)});
  const auto each = [](const Shape& shape, int arrays, int weights) {
    std::vector<Input> inputs;
    for (int i = 0; i < arrays * weights; ++i)
      inputs.push_back(in(shape, i % arrays == 3 ? Fill::positive : Fill::normal));
    return inputs;
  };
  add(op::MultiLambUpdate{.learning_rates = {0.1f, 0.2f}, .wds = {0.1f, 0.0f}, .step_count = {1, 7}, .num_tensors = 2},
      each(flat, 4, 2));
  add(op::MultiSGDMomUpdate{.lrs = {0.1f, 0.2f, 0.3f}, .wds = {0.1f, 0.0f, 0.1f}, .num_weights = 3}, each(wide, 3, 3));
  add(op::GroupAdagradUpdate{.lr = 0.1}, {in(wide), in(wide), in({301, 1}, Fill::positive)});
  add(op::MultiSumSq{.num_arrays = 2}, {in(flat), in(wide)});
  add(op::MultiAllFinite{.num_arrays = 2}, {in(flat), in(wide)});
  for (RnnMode mode : {RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    const int64_t gates = gates_of(mode), hidden = 133, state = mode == RnnMode::lstm ? 2 * hidden : hidden;
    std::vector<Input> inputs{in({5, 65, gates * hidden}), in({gates * hidden, hidden}, Fill::unit), in({65, state})};
    if (mode == RnnMode::gru) inputs.push_back(in(Shape(gates * hidden)));
    add(op::RnnScan{.mode = mode}, inputs);
  }
  add(op::CTCLoss{}, {in({30, 9, 11}), index({9, 7}, 0, 11)});
  for (CausalMask causal : {CausalMask::none, CausalMask::lower_right}) {
    const std::vector<Input> inputs{in({2, 4, 203, 24}), in({2, 2, 1601, 24}), in({2, 2, 1601, 40})};
    add(op::ScaledDotProductAttention{.causal = causal}, inputs);
    add(op::ScaledDotProductAttention{.causal = causal},
        {in({1, 2, 2, 24}), in({1, 2, 5003, 24}), in({1, 2, 5003, 40})});
  }
  add(op::RotaryEmbedding{}, {in({3, 5, 301, 64})});
  add(op::CacheAppend{}, {in({5, 7, 501, 33}), in({5, 7, 401, 33}), index(Shape(5), 0, 90)}, any);
  return rows;
}

}  // namespace

#define KAON_CHECK_FAMILY(rows, title, tags) \
  TEST_CASE("op table: " title, "[op_table]" tags) { check_ops(rows()); }
KAON_OP_FAMILIES(KAON_CHECK_FAMILY)
#undef KAON_CHECK_FAMILY

TEST_CASE("op table: every operator has rows, with nothing, with one and with an odd number of elements",
          "[op_table]") {
  NameSet rows, empty, single, odd;
  for (const Row& row : all_rows()) {
    const std::string name(row.def->name());
    const Hosts outputs = created(row);
    rows.insert(name);
    if (any_dimension(row, outputs, [](int64_t d) { return d == 0; })) empty.insert(name);
    if (any_dimension(row, outputs, [](int64_t d) { return d == 1; })) single.insert(name);
    if (any_dimension(row, outputs, [](int64_t d) { return d > 1 && d % 2 == 1; })) odd.insert(name);
  }
  NameSet all;
  for (const OpDef* def : all_op_defs()) all.insert(std::string(def->name()));
  CHECK(minus(all, rows) == NameSet{});
  empty.insert("_contrib_calibrate_entropy");  // a histogram has bins
  CHECK(minus(all, empty) == NameSet{});
  CHECK(minus(all, single) == NameSet{});
  // golden data has odd sizes of these
  for (const char* name : {"max_unpool", "_backward_max_pool_indices"}) odd.insert(name);
  CHECK(minus(all, odd) == NameSet{});
}

TEST_CASE("op table: every attribute is somewhere not its default", "[op_table]") {
  std::map<const OpDef*, NameSet> set;
  for (const Row& row : all_rows()) {
    const Texts defaults = texts_of(*row.def, Attributes(*row.def).get());
    for (const auto& [name, text] : texts_of(*row.def, row.attrs.get())) {
      const auto usual = defaults.find(name);  // Custom has any attributes
      if (usual == defaults.end() || text != usual->second) set[row.def].insert(name);
    }
  }
  NameSet missing;
  for (const OpDef* def : all_op_defs()) {
    for (const auto& [name, text] : texts_of(*def, Attributes(*def).get())) {
      const std::string full = std::string(def->name()) + "." + name;
      if (!no_effect.count(name) && !no_effect.count(full) && !set[def].count(name)) missing.insert(full);
    }
  }
  CHECK(missing == NameSet{});
}

TEST_CASE("op table: functions.h and all_ops.h list the same operators", "[op_table]") {
  const NameSet listed = listed_operators(), called = called_operators();
  CHECK(listed.size() == all_op_defs().size());
  CHECK(minus(listed, called) == NameSet{});
  CHECK(minus(called, listed) == NameSet{});
}

TEST_CASE("op table: names and aliases lead to one operator each", "[op_table]") {
  std::map<std::string, int> uses;
  for (const OpDef* def : all_op_defs()) {
    ++uses[std::string(def->name())];
    CHECK(find_op(def->name()) == def);
    for (int i = 0; i < def->traits.aliases.size(); ++i) {
      const std::string alias(def->traits.aliases[i]);
      ++uses[alias];
      INFO(alias);
      CHECK(find_op(alias) == def);
    }
  }
  for (const auto& [name, n] : uses) {
    INFO(name);
    CHECK(n == 1);
  }
  CHECK(find_op("no_such_operator") == nullptr);
}

TEST_CASE("op table: every operator on a GPU as on the CPU", "[op_table][cuda]") {
  if (!has_gpu()) return;
  for (const Row& row : all_rows()) {
    if (row.options.refused || !row.options.on_gpu) continue;
    INFO(row.str());
    CHECK(unless_thrown(check_devices, row) == "");
  }
}

TEST_CASE("op table: large arrays give the same bits on 0, 1 and 2 threads", "[op_table][unsanitized]") {
  for (const Row& row : large_rows()) {
    INFO(row.str());
    CHECK(check_threads(row) == "");
  }
}
