// A net of layers in a row, made fast by one call.
// Prints the net and its layers' shapes; its output before and after hybridize(), the same; the time of 1000 forwards
// before and after; the symbolic program and the beginning of its JSON; and that the program and the parameters, saved
// and loaded, give the same output again.
#include <fmt/format.h>
#include <fmt/ranges.h>  // join
#include <kaon/kaon.h>

#include <string>

namespace nn = kaon::gluon::nn;
using namespace kaon;

nn::HybridSequential get_net() {
  nn::HybridSequential net;
  net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}), nn::Dense(2));
  net.initialize();
  return net;
}

double benchmark(nn::HybridSequential net, NDArray x) {
  net(x);  // the first call infers shapes, or traces: neither belongs to the time of a forward
  return time_all([&] {
    for (int i = 0; i < 1000; ++i) net(x);
  });  // time_all waits for all that was pushed
}

int main() {
  random::seed(42);
  NDArray x = nd.random_normal({1, 512});
  nn::HybridSequential net = get_net();
  fmt::print("=== net(x) ===\n{}\n\n", net(x));
  fmt::print("=== net ===\n{}\n\n{}\n", to_string(net), gluon::summary(net, {1, 512}));

  // All layers here can be traced. From now on a call is one operation for the engine, its memory planned.
  net.hybridize({.static_alloc = true, .static_shape = true});
  fmt::print("=== net(x), hybridized ===\n{}\n\n", net(x));

  net = get_net();
  fmt::print("before hybridizing: {:.4f} sec\n", benchmark(net, x));
  net.hybridize({.static_alloc = true, .static_shape = true});
  fmt::print("after hybridizing:  {:.4f} sec\n\n", benchmark(net, x));

  // A Symbol in, the program out.
  Symbol data = sym.var("data");
  Symbol program = net(data);
  fmt::print("=== input data holder ===\n{}\n\n=== the symbolic program of net ===\n{}\n\n", data, program);
  fmt::print("its arguments: {}\n\n", fmt::join(program.list_arguments(), ", "));
  const std::string json = program.tojson();
  fmt::print("=== the first of {} bytes of its JSON ===\n{}\n...\n\n", json.size(), json.substr(0, 300));

  // Program and parameters as files: any front end that reads MXNet's can go on from here.
  program.save("model.json");
  net.collect_params().save("model.params");
  auto loaded = gluon::SymbolBlock::imports("model.json", {"data"}, "model.params");
  fmt::print("=== net(x) and the loaded program on x ===\n{}\n{}\n", net(x), loaded(x));

  // The parameters alone, for a net made by the same code.
  net.save_parameters("net.params");
  nn::HybridSequential other = get_net();
  other.load_parameters("net.params");
  fmt::print("{}\n", other(x));
}
