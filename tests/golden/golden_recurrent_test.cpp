// Recurrent layers and cells beside MXNet 1.9.1, which has written data/recurrent.params by make_recurrent.py: outputs,
// states and gradients, imperative and hybridized, from parameters under the names of MXNet's files.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <map>

#include "kaon/gluon/rnn/rnn.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace golden_recurrent_test {

using namespace kaon;
using namespace kaon::test;
namespace rnn = kaon::gluon::rnn;

namespace {

using Arrays = std::map<std::string, NDArray>;
using List = std::vector<NDArray>;

// Those of one case, without its name.
Arrays arrays_of(const std::string& name) {
  Arrays found;
  for (auto& [key, array] : nd_file::load(golden_dir() / "recurrent.params")) {
    if (key.starts_with(name + "/")) found.emplace(key.substr(name.size() + 1), array);
  }
  REQUIRE(!found.empty());
  return found;
}

NamedArrays under(const Arrays& all, const std::string& prefix) {
  NamedArrays found;
  for (const auto& [key, array] : all) {
    if (key.starts_with(prefix)) found.emplace_back(key.substr(prefix.size()), array);
  }
  return found;
}

List list_of(const Arrays& all, const std::string& prefix) {
  List found;
  for (auto& [key, array] : under(all, prefix)) found.push_back(array);
  return found;
}

struct Result {
  NDArray out;
  List states;
};
using Run = std::function<Result(const NDArray& x, const List& states, const NDArray* lengths)>;

// A block, what runs it, and the block that is hybridized for one plan of the whole.
struct Case {
  gluon::Block block, whole;
  Run run;
};

template <class L>
Case layer(L net) {
  return {net, net, [net](const NDArray& x, const List& states, const NDArray*) -> Result {
            if (states.empty()) return {net(x), {}};
            auto [out, next] = net(x, states);
            return {out, next};
          }};
}

template <class C>
struct Unrolled : gluon::HybridBlock<Unrolled<C>> {
  Unrolled(const C& c, rnn::Layout l) : cell(this->child("cell", c)), layout(l) {}
  auto hybrid_forward(auto, auto x, const auto& states) { return cell.unroll(steps, x, states, layout); }
  auto hybrid_forward(auto, auto x, const auto& states, auto lengths) {
    return cell.unroll(steps, x, states, layout, lengths);
  }
  C cell;
  rnn::Layout layout;
  int64_t steps = 0;
};

template <class C>
Case cell(C c, rnn::Layout layout = rnn::Layout::NTC) {
  Unrolled<C> net(c, layout);
  return {c, net, [net](const NDArray& x, const List& states, const NDArray* lengths) mutable -> Result {
            net.steps = x.shape()[net.layout == rnn::Layout::TNC ? 0 : 1];
            auto [out, next] = lengths ? net(x, states, *lengths) : net(x, states);
            return {out, next};
          }};
}

rnn::HybridSequentialRNNCell stack(const auto&... cells) {
  rnn::HybridSequentialRNNCell s;
  s.add(cells...);
  return s;
}

template <template <int> class C, int Axes>
Case conv() {
  const Shape spaces[] = {{2, 6}, {2, 4, 5}, {2, 3, 4, 3}};
  return cell(C<Axes>(spaces[Axes - 1], 3, {.i2h_kernel = 3, .h2h_kernel = 3, .i2h_pad = 1}));
}

// The blocks of make_recurrent.py.
const std::map<std::string, std::function<Case()>>& cases() {
  using rnn::Layout;
  static const auto* const all = new std::map<std::string, std::function<Case()>>{
      {"rnn_relu", [] { return layer(rnn::RNN(3, {.num_layers = 2})); }},
      {"rnn_tanh_bi_ntc",
       [] { return layer(rnn::RNN(3, {.activation = "tanh", .layout = Layout::NTC, .bidirectional = true})); }},
      {"lstm", [] { return layer(rnn::LSTM(3)); }},
      {"lstm_zero_states", [] { return layer(rnn::LSTM(3, {.num_layers = 2, .layout = Layout::NTC})); }},
      {"lstm_bi", [] { return layer(rnn::LSTM(3, {.num_layers = 2, .bidirectional = true})); }},
      {"lstm_projected", [] { return layer(rnn::LSTM(5, {.num_layers = 2, .projection_size = 3})); }},
      {"lstm_one", [] { return layer(rnn::LSTM(2)); }},
      {"gru", [] { return layer(rnn::GRU(3, {.num_layers = 2})); }},
      {"gru_bi_ntc",
       [] { return layer(rnn::GRU(3, {.num_layers = 2, .layout = Layout::NTC, .bidirectional = true})); }},
      {"rnn_cell", [] { return cell(rnn::RNNCell(3)); }},
      {"rnn_cell_relu_tnc", [] { return cell(rnn::RNNCell(3, {.activation = "relu"}), Layout::TNC); }},
      {"lstm_cell", [] { return cell(rnn::LSTMCell(3)); }},
      {"lstm_cell_activations",
       [] { return cell(rnn::LSTMCell(3, {.activation = "relu", .recurrent_activation = "softsign"})); }},
      {"lstm_cell_lengths", [] { return cell(rnn::LSTMCell(3)); }},
      {"lstm_cell_one", [] { return cell(rnn::LSTMCell(2)); }},
      {"gru_cell", [] { return cell(rnn::GRUCell(3), Layout::TNC); }},
      {"gru_cell_zero_states", [] { return cell(rnn::GRUCell(3)); }},
      {"lstmp_cell", [] { return cell(rnn::LSTMPCell(5, 3)); }},
      {"stack", [] { return cell(stack(rnn::LSTMCell(4), rnn::DropoutCell(0.3), rnn::GRUCell(3))); }},
      {"stack_lengths", [] { return cell(stack(rnn::RNNCell(4), rnn::LSTMCell(3)), Layout::TNC); }},
      {"bidirectional", [] { return cell(rnn::BidirectionalCell(rnn::LSTMCell(3), rnn::GRUCell(2))); }},
      {"bidirectional_lengths",
       [] { return cell(rnn::BidirectionalCell(rnn::GRUCell(3), rnn::GRUCell(3)), Layout::TNC); }},
      {"bidirectional_stack",
       [] {
         return cell(stack(rnn::BidirectionalCell(rnn::RNNCell(3), rnn::RNNCell(3)),
                           rnn::BidirectionalCell(rnn::LSTMCell(2), rnn::LSTMCell(2))));
       }},
      {"residual", [] { return cell(rnn::ResidualCell(rnn::GRUCell(5))); }},
      {"residual_lengths", [] { return cell(rnn::ResidualCell(rnn::LSTMCell(5))); }},
      {"zoneout",
       [] { return cell(rnn::ZoneoutCell(rnn::LSTMCell(3), {.zoneout_outputs = 0.3, .zoneout_states = 0.2})); }},
      {"vardrop",
       [] {
         return cell(rnn::VariationalDropoutCell(rnn::LSTMCell(3),
                                                 {.drop_inputs = 0.3, .drop_states = 0.2, .drop_outputs = 0.4}));
       }},
      {"vardrop_whole",
       [] { return cell(rnn::VariationalDropoutCell(rnn::GRUCell(3), {.drop_inputs = 0.3, .drop_outputs = 0.4})); }},
      {"conv1_rnn", conv<rnn::ConvRNNCell, 1>},
      {"conv1_lstm", conv<rnn::ConvLSTMCell, 1>},
      {"conv1_gru", conv<rnn::ConvGRUCell, 1>},
      {"conv2_rnn", conv<rnn::ConvRNNCell, 2>},
      {"conv2_lstm", conv<rnn::ConvLSTMCell, 2>},
      {"conv2_gru", conv<rnn::ConvGRUCell, 2>},
      {"conv3_rnn", conv<rnn::ConvRNNCell, 3>},
      {"conv3_lstm", conv<rnn::ConvLSTMCell, 3>},
      {"conv3_gru", conv<rnn::ConvGRUCell, 3>},
      {"conv2_lstm_uneven", [] {
         return cell(rnn::Conv2DLSTMCell({2, 5, 4}, 3,
                                         {.i2h_kernel = {3, 2},
                                          .h2h_kernel = {1, 3},
                                          .i2h_pad = {0, 1},
                                          .h2h_dilate = {1, 2},
                                          .activation = "relu"}));
       }}};
  return *all;
}

void check_forward(const Case& c, const Arrays& golden) {
  const List states = list_of(golden, "state/"), news = list_of(golden, "new/");
  const auto lengths = golden.find("valid_length");
  const NDArray* const valid = lengths == golden.end() ? nullptr : &lengths->second;
  const Result r = c.run(golden.at("x"), states, valid);
  check_close("out", r.out, golden.at("out"), 5e-6);
  REQUIRE((news.empty() || news.size() == r.states.size()));
  for (size_t i = 0; i < news.size(); ++i) check_close("state", r.states[i], news[i], 5e-6);
}

void check_gradients(const Case& c, const Arrays& golden) {
  NDArray x = golden.at("x").copy();
  List states;
  for (const NDArray& s : list_of(golden, "state/")) states.push_back(s.copy());
  x.attach_grad();
  for (NDArray& s : states) s.attach_grad();
  const auto lengths = golden.find("valid_length");
  const NDArray* const valid = lengths == golden.end() ? nullptr : &lengths->second;
  const bool has_new = !list_of(golden, "new/").empty();
  NDArray loss = autograd::record(
      [&] {
        const Result r = c.run(x, states, valid);
        NDArray sum = (r.out * golden_head(r.out.shape())).sum();
        if (has_new) {
          for (const NDArray& s : r.states) sum = sum + (s * golden_head(s.shape())).sum();
        }
        return sum;
      },
      false);
  loss.backward();
  check_close("gradient of x", x.grad(), golden.at("grad/x"), 5e-6);
  for (size_t i = 0; i < states.size(); ++i) {
    check_close("gradient of a state", states[i].grad(), golden.at("grad/state/" + std::to_string(i)), 5e-6);
  }
  // Under the names of files: the gradients as values.
  std::map<std::string, NDArray> values;
  ScratchFolder folder;
  for (gluon::Parameter p : c.block.collect_params()) {
    values[p.name()] = p.data().copy();
    p.set_data(p.grad());
  }
  c.block.save_parameters(folder / "gradients.params");
  for (gluon::Parameter p : c.block.collect_params()) p.set_data(values[p.name()]);
  const NamedArrays gradients = nd_file::load(folder / "gradients.params");
  REQUIRE(gradients.size() == under(golden, "grad/param/").size());
  for (const auto& [key, array] : gradients)
    check_close("gradient of " + key, array, golden.at("grad/param/" + key), 5e-6);
}

void load(const Case& c, const Arrays& golden) {
  ScratchFolder folder;
  nd_file::save(folder / "case.params", under(golden, "param/"));
  gluon::Block(c.block).load_parameters(folder / "case.params");
}

}  // namespace

TEST_CASE("golden: recurrent layers and cells compute what MXNet computes", "[golden]") {
  for (const auto& [name, make] : cases()) {
    INFO(name);
    const Arrays golden = arrays_of(name);
    Case c = make();
    load(c, golden);
    const auto check = [&](const char* how) {
      INFO(how);
      check_forward(c, golden);
      if (golden.count("grad/x")) check_gradients(c, golden);
    };
    check("imperative");
    c.block.hybridize();
    check("a plan for each step");
    c.whole.hybridize({.static_alloc = true, .static_shape = true});
    check("one plan");
  }
}

TEST_CASE("golden: MXNet reads the parameters of recurrent blocks", "[golden]") {
  ScratchFolder folder;
  for (const auto& [name, make] : cases()) {
    const Arrays golden = arrays_of(name);
    Case c = make();
    load(c, golden);
    c.block.save_parameters(folder / (name + ".params"));
  }
  const char* python = std::getenv("KAON_MXNET_PYTHON");
  const std::string program = python ? python : "python3";
  const std::string script = (golden_dir() / ".." / "scripts" / "make_recurrent.py").string();
  const int status =
      std::system((program + " " + script + " --load " + (folder / "").string() + " 2>/dev/null").c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    skip("MXNet cannot be imported by " + program);
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace golden_recurrent_test
