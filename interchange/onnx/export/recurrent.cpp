// The recurrent layers of RNN as ONNX nodes, one for each layer.
#include <fmt/format.h>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

// Where a layer's direction has its arrays in the flat parameters.
class Parameters {
 public:
  Parameters(Emit& e, const op::RnnParameters& layout, int64_t directions)
      : e_(e), layout_(layout), gates_(ops::gates_of(layout.mode)), directions_(directions) {}

  // Array `kind` of a cell: W, U, then b, b'; the blocks of its gates in ONNX's order.
  std::string array(int layer, int direction, int kind) {
    const int cell = layer * int(directions_) + direction;
    const int place = kind < 2 ? cell * 2 + kind : layout_.cells() * 2 + cell * 2 + kind - 2;
    int64_t begin = 0;
    for (int i = 0; i < place; ++i) begin += layout_.shape_of(i).size();
    const Shape s = layout_.shape_of(place);
    const int64_t block = s.size() / gates_;
    std::vector<std::string> parts;
    for (int gate : order()) {
      const int64_t from = begin + gate * block;
      parts.push_back(e_.node("Slice", {e_.in(1), e_.builder().constant({from}), e_.builder().constant({from + block}),
                                        e_.builder().constant({0})}));
    }
    const std::string flat = parts.size() == 1 ? parts[0] : e_.node("Concat", parts, {integer("axis", 0)});
    return kind < 2 ? e_.reshape(flat, Shape(1, s[0], s[1])) : e_.reshape(flat, Shape(1, s[0]));
  }

 private:
  std::vector<int> order() const {
    if (layout_.mode == RnnMode::lstm) return {0, 3, 1, 2};  // i f g o to i o f g
    if (layout_.mode == RnnMode::gru) return {1, 0, 2};      // r z n to z r n
    return {0};
  }
  Emit& e_;
  const op::RnnParameters& layout_;
  int64_t gates_, directions_;
};

void rnn(Emit& e) {
  const auto& op = e.op<op::RNN>();
  if (op.projection_size || op.use_sequence_length || op.lstm_state_clip_min || op.lstm_state_clip_max) {
    return e.set_parts();  // as a Scan
  }
  const bool lstm = op.mode == RnnMode::lstm;
  const int directions = op.bidirectional ? 2 : 1;
  const int64_t size = op.state_size, steps = e.shape()[0], batch = e.shape()[1];
  const op::RnnParameters layout{.mode = op.mode,
                                 .input_size = e.shape()[2],
                                 .state_size = size,
                                 .num_layers = op.num_layers,
                                 .bidirectional = op.bidirectional};
  Parameters parameters(e, layout, directions);
  Builder& b = e.builder();
  const auto joined = [&](const std::vector<std::string>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : e.node("Concat", parts, {integer("axis", axis)});
  };
  std::string x = e.in(0);
  std::vector<std::string> hs, cs;
  for (int layer = 0; layer < op.num_layers; ++layer) {
    const auto both = [&](int kind) {
      std::vector<std::string> parts;
      for (int d = 0; d < directions; ++d) parts.push_back(parameters.array(layer, d, kind));
      return joined(parts, 0);
    };
    std::vector<std::string> biases;
    for (int d = 0; d < directions; ++d) {
      biases.push_back(joined({parameters.array(layer, d, 2), parameters.array(layer, d, 3)}, 1));
    }
    const auto state = [&](int i) {
      return e.node("Slice", {e.in(i), b.constant({layer * directions}), b.constant({(layer + 1) * directions}),
                              b.constant({0})});
    };
    std::vector<std::string> inputs{x, both(0), both(1), joined(biases, 0), "", state(2)};
    if (lstm) inputs.push_back(state(3));
    std::vector<Attribute> attributes{integer("hidden_size", size),
                                      text("direction", op.bidirectional ? "bidirectional" : "forward")};
    if (op.mode == RnnMode::gru) attributes.push_back(integer("linear_before_reset", 1));
    if (op.mode == RnnMode::rnn_relu) {
      Attribute a = text("activations", "");
      a.type = Attribute::Type::strings;
      a.strings.assign(size_t(directions), "Relu");
      attributes.push_back(a);
    }
    const char* type = lstm ? "LSTM" : op.mode == RnnMode::gru ? "GRU" : "RNN";
    const std::vector<std::string> made =
        b.nodes(type, inputs, attributes, lstm ? 3 : 2, fmt::format("layer{}", layer));
    // (steps, directions, batch, H) side by side
    x = e.reshape(e.node("Transpose", {made[0]}, {integers("perm", {0, 2, 1, 3})}),
                  Shape(steps, batch, directions * size));
    hs.push_back(made[1]);
    if (lstm) cs.push_back(made[2]);
  }
  e.set(x, 0);
  if (!op.state_outputs) return;
  e.set(joined(hs, 0), 1);
  if (lstm) e.set(joined(cs, 0), 2);
}

const WriterRow recurrent_table[] = {{&op::RNN::def, rnn}};

}  // namespace

std::span<const WriterRow> recurrent_writers() { return recurrent_table; }

}  // namespace kaon::onnx::exporting
