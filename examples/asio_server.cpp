// A net behind a TCP port: one thread runs the sockets, the engine's threads compute, and neither waits for the other.
// The protocol stands in asio_server_protocol.h. SIGTERM or SIGINT ends it when everything that was read is answered; a
// second one, or ten seconds, drops the rest.
#include <fmt/format.h>

#include <boost/asio/signal_set.hpp>
#include <map>
#include <string_view>

#include "asio_server.h"
#include "command_line.h"
#include "lenet.h"

using namespace examples;

namespace {

constexpr const char* usage = R"(usage: asio_server [options]
Answers requests of float32 samples over TCP with what a net computes for them, until SIGTERM.

  --port N       to listen at; 0: any free one, which is printed (default 9090)
  --address A    of the interface (default 127.0.0.1)
  --net NAME     lenet (samples 1,28,28) or mlp (samples 512), with random weights (default lenet)
  --seed N       of these weights (default 1)
  --model FILE   serve an exported model instead: FILE is its prefix-symbol.json
  --params FILE  and its prefix-0001.params
  --input SHAPE  of one of the model's samples, for instance 1,28,28
  --max-rows N   samples in a request, at most (default 8)
  --threads N    of the engine (default: all cores)
  --help         print this
)";

Shape parse_shape(std::string_view option, std::string_view text) {
  Shape shape;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    if (shape.ndim() == Shape::max_ndim - 1)
      throw UsageError(fmt::format("{}: expected at most {} dimensions", option, shape.ndim()));
    shape.push_back(parse_number<int64_t>(option, text.substr(0, comma), 1, 1 << 20));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  if (shape.size() > 1 << 24)
    throw UsageError(fmt::format("{}: expected at most {} elements, got {}", option, 1 << 24, shape.size()));
  return shape;
}

struct Options {
  uint16_t port = 9090;
  std::string address = "127.0.0.1";
  std::string net = "lenet";
  uint64_t seed = 1;
  std::string model, params;
  Shape input;
  int64_t max_rows = 8;
  int threads = -1;
  bool help = false;
};

Options parse_options(int argc, char** argv) {
  Options o;
  const std::map<std::string_view, std::function<void(std::string_view)>> options = {
      {"--port", [&](auto v) { o.port = parse_number<uint16_t>("--port", v, 0, 65535); }},
      {"--address", [&](auto v) { o.address = v; }},
      {"--net", [&](auto v) { o.net = v; }},
      {"--seed", [&](auto v) { o.seed = parse_number<uint64_t>("--seed", v, 0, UINT64_MAX); }},
      {"--model", [&](auto v) { o.model = v; }},
      {"--params", [&](auto v) { o.params = v; }},
      {"--input", [&](auto v) { o.input = parse_shape("--input", v); }},
      {"--max-rows", [&](auto v) { o.max_rows = parse_number<int64_t>("--max-rows", v, 1, 256); }},
      {"--threads", [&](auto v) { o.threads = parse_number("--threads", v, 1, 256); }},
  };
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--help")) {
      o.help = true;
      continue;
    }
    const auto option = options.find(argv[i]);
    if (option == options.end()) throw UsageError(fmt::format("unknown option '{}'", argv[i]));
    if (++i == argc) throw UsageError(fmt::format("{} needs a value", option->first));
    option->second(argv[i]);
  }
  if (o.net != "lenet" && o.net != "mlp")
    throw UsageError(fmt::format("--net: expected lenet or mlp, got '{}'", o.net));
  if (o.model.empty() != o.params.empty() || o.model.empty() != o.input.empty()) {
    throw UsageError("--model, --params and --input go together");
  }
  return o;
}

// Hybridized with one plan for each number of rows, so that no request is the first of its kind.
template <class Net>
Service serve(Net net, const Shape& sample, int64_t max_rows) {
  net.hybridize({.static_alloc = true, .static_shape = true, .max_plans = int(max_rows)});
  for (int64_t rows = 1; rows <= max_rows; ++rows) {
    Shape shape(rows);
    for (int64_t dim : sample) shape.push_back(dim);
    net(nd.zeros(shape)).wait_to_read();
  }
  return {.net = [net](const NDArray& x) { return net(x); }, .sample = sample, .max_rows = max_rows};
}

Service make_service(const Options& o) {
  if (!o.model.empty()) return serve(gluon::SymbolBlock::imports(o.model, {"data"}, o.params), o.input, o.max_rows);
  random::seed(o.seed);
  auto start = [&](auto net, const Shape& sample) {
    net.initialize(init::Xavier());
    return serve(net, sample, o.max_rows);
  };
  return o.net == "lenet" ? start(LeNet(), Shape(1, 28, 28)) : start(seed_mlp(), Shape(512));
}

void run(const Options& o) {
  Engine engine({.threads = o.threads});
  const EngineScope scope(engine);
  asio::io_context io(1);
  Server server(io, tcp::endpoint(asio::ip::make_address(o.address), o.port), make_service(o));

  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](error_code ended, int) {
    if (ended) return;
    server.stop();
    signals.async_wait([&](error_code answered, int) {
      if (!answered) server.abort();
    });
  });
  asio::co_spawn(io, server.run(), [&](std::exception_ptr failure) {
    signals.cancel();
    if (failure) std::rethrow_exception(failure);
  });
  fmt::print("listening on {}:{}\n", server.endpoint().address().to_string(), server.endpoint().port());
  std::fflush(stdout);
  io.run();  // until nothing is left to do
}

}  // namespace

// Returns 0; 1 when it cannot listen or load the model; 2 for a bad option.
int main(int argc, char** argv) {
  return run_program(
      "asio_server", usage, [&] { return parse_options(argc, argv); }, run);
}
