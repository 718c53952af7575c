// asio_server: its sessions in this process, under load and under bad clients; and the program itself, with SIGTERM.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <random>

#include "kaon/engine/storage.h"
#include "kaon/examples/asio_server.h"
#include "kaon/examples/lenet.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/support/files.h"

namespace asio_server_test {

using namespace examples;
using namespace kaon::test;

namespace {

constexpr int64_t sample_size = 20;
using Values = std::vector<float>;

struct Answer {
  Status status;
  std::string bytes;
  Values values() const {
    Values v(bytes.size() / sizeof(float));
    std::memcpy(v.data(), bytes.data(), v.size() * sizeof(float));
    return v;
  }
};

// A client that blocks.
class Client {
 public:
  explicit Client(const tcp::endpoint& server) : socket_(io_) { socket_.connect(server); }

  void send_bytes(const std::string& bytes) { asio::write(socket_, asio::buffer(bytes)); }
  void send(const Values& values) { send_bytes(request(values)); }
  static std::string request(const Values& values) {
    const uint32_t length = uint32_t(values.size() * sizeof(float));
    std::string bytes(sizeof length + length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    std::memcpy(bytes.data() + sizeof length, values.data(), length);
    return bytes;
  }
  // Nothing when the server has closed the connection between two replies.
  std::optional<Answer> receive() {
    Answer a;
    error_code error;
    if (asio::read(socket_, asio::buffer(&a.status, 1), error); error) return std::nullopt;
    uint32_t length = 0;
    asio::read(socket_, asio::buffer(&length, sizeof length));
    a.bytes.resize(length);
    asio::read(socket_, asio::buffer(a.bytes));
    return a;
  }
  Answer ask(const Values& values) {
    send(values);
    return receive().value();
  }
  void vanish() {  // without a word, not even that it closes
    socket_.set_option(asio::socket_base::linger(true, 0));
    socket_.close();
  }
  void leave() { socket_.close(); }

 private:
  asio::io_context io_;
  tcp::socket socket_;
};

// A server on a thread of its own.
class Running {
 public:
  explicit Running(Service service)
      : server_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0), std::move(service)) {
    at_ = server_.endpoint();
    asio::co_spawn(io_, server_.run(), asio::detached);
    thread_ = std::thread([this] {
      io_.run();
      ended_ = true;
    });
  }
  ~Running() {
    if (!thread_.joinable()) return;
    stop(0ms);
    thread_.join();
  }
  const tcp::endpoint& at() const { return at_; }
  size_t num_sessions() {
    std::promise<size_t> n;
    asio::post(io_, [&] { n.set_value(server_.num_sessions()); });
    return n.get_future().get();
  }
  void stop(std::chrono::milliseconds grace = 10s) {
    asio::post(io_, [this, grace] { server_.stop(grace); });
  }
  bool has_ended() const { return ended_; }
  void join() { thread_.join(); }

 private:
  asio::io_context io_{1};
  Server server_;
  tcp::endpoint at_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

gluon::nn::HybridSequential make_net() {
  random::seed(7);
  gluon::nn::HybridSequential net(nn::Dense(32, {.activation = "tanh"}), nn::Dense(16, {.activation = "relu"}),
                                  nn::Dense(3));
  net.initialize(init::Xavier());
  return net;
}

// Rows that differ, so that no answer can stand for another one's.
Values random_rows(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values v(size_t(rows * sample_size));
  for (float& x : v) x = float(random() % 2000) / 1000 - 1;
  return v;
}

NDArray as_array(const Values& values, const Shape& sample) {
  Shape shape(int64_t(values.size()) / sample.size());
  for (int64_t dim : sample) shape.push_back(dim);
  return NDArray::from(values.data(), values.size(), shape);
}

bool is_close(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-5f + 1e-4f * std::abs(b[i]))) return false;
  }
  return true;
}

struct Request {
  Values values, expected;
};
// What the imperative net says.
template <class Net>
std::vector<Request> requests_for(Net net, const Shape& sample, size_t count, int64_t max_rows) {
  std::vector<Request> all;
  for (size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(i);
    Values values(size_t((1 + int64_t(i) % max_rows) * sample.size()));
    for (float& x : values) x = float(random() % 2000) / 1000 - 1;
    all.push_back({values, net(as_array(values, sample)).template asvector<float>()});
  }
  return all;
}

// An operation that holds every thread of the engine until the gate is open.
void close_engine(Engine& engine, Gate& gate) {
  static Var held[8];
  for (int i = 0; i < engine.stats().threads; ++i)
    engine.push({update(held[i])}, [&gate](RunContext&) { gate.wait(); });
}

// Opens the gate at the end, also of a case that fails.
struct Opened {
  Gate gate;
  ~Opened() { gate.open(); }
};

}  // namespace

TEST_CASE("asio_server: 64 connections get what the imperative net computes", "[server]") {
  for (int threads : {1, 2, 4}) {
    INFO("engine with " << threads << " threads");
    Watchdog watchdog(60s);
    Engine engine({.threads = threads});
    const EngineScope scope(engine);
    auto net = make_net();
    constexpr int64_t max_rows = 5;
    const auto requests = requests_for(net, Shape(sample_size), 200, max_rows);
    net.hybridize({.static_alloc = true, .static_shape = true});
    Running server(
        {.net = [net](const NDArray& x) { return net(x); }, .sample = Shape(sample_size), .max_rows = max_rows});

    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 64; ++i) clients.push_back(std::make_unique<Client>(server.at()));
    auto request = [&](size_t client, size_t round, size_t k) -> const Request& {
      return requests[(client * 31 + round * Session::ahead + k) % requests.size()];
    };
    size_t right = 0;
    constexpr size_t rounds = 8;
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t c = 0; c < clients.size(); ++c) {
        for (size_t k = 0; k < Session::ahead; ++k) clients[c]->send(request(c, round, k).values);
      }
      for (size_t c = 0; c < clients.size(); ++c) {
        for (size_t k = 0; k < Session::ahead; ++k) {
          const Answer a = clients[c]->receive().value();
          right += a.status == Status::ok && is_close(a.values(), request(c, round, k).expected);
        }
      }
    }
    CHECK(right == rounds * clients.size() * Session::ahead);
    CHECK(server.num_sessions() == 64);
    clients.clear();
    CHECK(becomes_true([&] { return server.num_sessions() == 0; }));
    engine.wait_all();
  }
}

TEST_CASE("asio_server: a bad length is answered with what was expected", "[server]") {
  Watchdog watchdog;
  auto net = make_net();
  Running server({.net = [net](const NDArray& x) { return net(x); }, .sample = Shape(4, 5), .max_rows = 2});
  Client client(server.at());
  auto refused = [&](const std::string& bytes, Status status, const std::string& text) {
    client.send_bytes(bytes);
    const Answer a = client.receive().value();
    CHECK(a.status == status);
    CHECK_THAT(a.bytes, Catch::Matchers::Contains(text));
  };
  const std::string expected = "expected 1 to 2 samples of 80 bytes (float32 of shape (4, 5)), got ";
  auto of_length = [](uint32_t length) {
    return std::string(reinterpret_cast<char*>(&length), sizeof length) + std::string(length, 'x');
  };
  for (uint32_t length : {0u, 1u, 7u, 76u, 79u, 81u, 84u, 120u, 240u, 100'000u, 1u << 20}) {
    refused(of_length(length), Status::bad_length, expected + std::to_string(length) + " bytes");
    CHECK(client.ask(random_rows(2, length)).status == Status::ok);  // the connection goes on
  }
  for (uint32_t length : {(1u << 20) + 1, 0x7fffffffu, 0xffffffffu}) {
    Client mad(server.at());
    mad.send(random_rows(1, 1));
    mad.send_bytes(std::string(reinterpret_cast<const char*>(&length), sizeof length) + std::string(300'000, 'x'));
    CHECK(mad.receive().value().status == Status::ok);
    const Answer a = mad.receive().value();
    CHECK(a.status == Status::too_long);
    CHECK(a.bytes == "a request has at most 1048576 bytes, got " + std::to_string(length));
    CHECK_FALSE(mad.receive());  // closed
  }
  Client half(server.at());  // leaves in the middle of a request
  half.send_bytes(Client::request(random_rows(2, 3)).substr(0, 50));
  half.leave();
  CHECK(client.ask(random_rows(1, 2)).status == Status::ok);
}

TEST_CASE("asio_server: a failure of the net is that request's alone", "[server]") {
  Watchdog watchdog;
  Engine engine({.threads = 2});
  const EngineScope scope(engine);
  // two samples are refused at the call, an index out of range in the operation
  auto net = [](const NDArray& x) {
    const NDArray index = x.reshape({-1});
    if (index.size() != 1) throw ShapeError("[net] takes one sample at a time");
    return nd.take(nd.array({0, 10, 20}), index, {.mode = IndexMode::raise});
  };
  Running server({.net = net, .sample = Shape(1), .max_rows = 2});
  Client client(server.at());
  for (float bad : {3.f, -4.f, 1e6f}) {
    const Answer a = client.ask({bad});
    CHECK(a.status == Status::failed);
    CHECK_THAT(a.bytes, Catch::Matchers::Contains("[take]"));
    CHECK(client.ask({2}).values() == Values{20});
  }
  const Answer a = client.ask({1, 2});
  CHECK(a.status == Status::failed);
  CHECK(a.bytes == "[net] takes one sample at a time");
  CHECK(client.ask({1}).values() == Values{10});
}

TEST_CASE("users row 48: a client that vanishes takes its queued work with it", "[server]") {
  for (bool without_a_word : {false, true}) {
    INFO((without_a_word ? "connection reset" : "connection closed"));
    Watchdog watchdog;
    Engine engine({.threads = 2});
    const EngineScope scope(engine);
    auto net = make_net();
    const auto requests = requests_for(net, Shape(sample_size), 8, 4);
    net.hybridize();  // arenas go back to the storage
    for (const Request& r : requests) net(as_array(r.values, Shape(sample_size)));
    engine.wait_all();
    const size_t base = Storage::cpu().stats().live;

    Opened opened;
    std::atomic<int> begun{0};
    auto counted = [net, &begun, &engine](const NDArray& x) {  // two operations
      engine.push({update(x.var())}, [&begun](RunContext&) { ++begun; });
      return net(x);
    };
    Running server({.net = counted, .sample = Shape(sample_size)});
    Client patient(server.at()), impatient(server.at());
    close_engine(engine, opened.gate);
    const uint64_t before = engine.stats().ops;
    for (size_t k = 0; k < 3; ++k) impatient.send(requests[k].values);
    patient.send(requests[7].values);
    REQUIRE(becomes_true([&] { return engine.stats().ops == before + 4 * 2; }));
    without_a_word ? impatient.vanish() : impatient.leave();
    // its coroutines end although nothing can run yet, and the others go on
    CHECK(becomes_true([&] { return server.num_sessions() == 1; }));
    Client third(server.at());
    CHECK(third.ask({1}).status == Status::bad_length);
    CHECK(engine.stats().completed == before - uint64_t(engine.stats().threads));

    opened.gate.open();
    const Answer a = patient.receive().value();
    CHECK(a.status == Status::ok);
    CHECK(is_close(a.values(), requests[7].expected));
    CHECK_NOTHROW(engine.wait_all());  // what was dropped is no failure
    CHECK(begun == 1);                 // patient's
    CHECK(becomes_true([&] { return Storage::cpu().stats().live <= base; }));
    for (size_t k : {2u, 0u, 1u}) CHECK(is_close(third.ask(requests[k].values).values(), requests[k].expected));
  }
}

TEST_CASE("asio_server: stopping answers what was read, and nothing more", "[server]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  const EngineScope scope(engine);
  auto net = make_net();
  const auto requests = requests_for(net, Shape(sample_size), 8, 4);
  net.hybridize();
  Running server({.net = [net](const NDArray& x) { return net(x); }, .sample = Shape(sample_size)});
  Opened opened;
  Client busy(server.at()), idle(server.at()), slow(server.at());
  for (Client* c : {&busy, &idle, &slow}) CHECK(c->ask(requests[0].values).status == Status::ok);
  close_engine(engine, opened.gate);
  const uint64_t before = engine.stats().ops;
  busy.send(requests[2].values);
  busy.send(requests[3].values);
  slow.send_bytes(Client::request(requests[4].values).substr(0, 10));  // never read to its end
  REQUIRE(becomes_true([&] { return engine.stats().ops == before + 2; }));
  server.stop();
  CHECK_FALSE(idle.receive());
  CHECK_FALSE(slow.receive());
  idle.leave();
  slow.leave();
  CHECK_FALSE(server.has_ended());
  opened.gate.open();
  CHECK(is_close(busy.receive().value().values(), requests[2].expected));
  CHECK(is_close(busy.receive().value().values(), requests[3].expected));
  CHECK_FALSE(busy.receive());
  busy.leave();
  server.join();  // io_context::run() has ended by itself
}

TEST_CASE("asio_server: after the grace what is still pending is dropped", "[server]") {
  Watchdog watchdog;
  Engine engine({.threads = 1});
  const EngineScope scope(engine);
  auto net = make_net();
  const auto requests = requests_for(net, Shape(sample_size), 1, 4);
  std::atomic<int> begun{0};
  auto counted = [net, &begun, &engine](const NDArray& x) {
    engine.push({update(x.var())}, [&begun](RunContext&) { ++begun; });
    return net(x);
  };
  Opened opened;
  Running server({.net = counted, .sample = Shape(sample_size)});
  close_engine(engine, opened.gate);
  const uint64_t before = engine.stats().ops;
  Client client(server.at());
  client.send(requests[0].values);
  REQUIRE(becomes_true([&] { return engine.stats().ops > before; }));
  server.stop(20ms);
  CHECK_FALSE(client.receive());
  client.leave();
  server.join();
  opened.gate.open();
  engine.wait_all();
  CHECK(begun == 0);
}

TEST_CASE("asio_server: a connection too many waits until another one ends", "[server]") {
  Watchdog watchdog;
  auto net = make_net();
  Running server(
      {.net = [net](const NDArray& x) { return net(x); }, .sample = Shape(sample_size), .max_connections = 2});
  Client a(server.at());
  Client b(server.at());
  CHECK(a.ask(random_rows(1, 1)).status == Status::ok);
  CHECK(b.ask(random_rows(1, 2)).status == Status::ok);
  Client c(server.at());
  c.send(random_rows(1, 3));
  CHECK(b.ask(random_rows(1, 4)).status == Status::ok);
  CHECK(server.num_sessions() == 2);
  a.leave();
  CHECK(c.receive().value().status == Status::ok);
  CHECK(server.num_sessions() == 2);
}

namespace {

// The program, with what it prints.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    arguments.insert(arguments.begin(), KAON_ASIO_SERVER);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const int failure = posix_spawn(&pid_, KAON_ASIO_SERVER, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = fdopen(ends[0], "r");
    if (failure) throw std::runtime_error("cannot start " KAON_ASIO_SERVER);
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::fclose(output_);
  }
  std::string line() {
    char text[256] = "";
    return std::fgets(text, sizeof text, output_) ? text : "";
  }
  tcp::endpoint at() {
    const std::string text = line();
    REQUIRE_THAT(text, Catch::Matchers::StartsWith("listening on 127.0.0.1:"));
    return {asio::ip::address_v4::loopback(), uint16_t(std::stoi(text.substr(text.rfind(':') + 1)))};
  }
  void signal(int number) { kill(pid_, number); }
  // 128 + n for the signal n, as a shell says it.
  int exit_code() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

}  // namespace

TEST_CASE("asio_server: SIGTERM under load: whole answers, all right, and exit code 0", "[server]") {
  Watchdog watchdog(60s);
  random::seed(5);
  LeNet net;
  net.initialize(init::Xavier());
  const auto requests = requests_for(net, Shape(1, 28, 28), 40, 3);
  Program program({"--port", "0", "--seed", "5", "--max-rows", "3"});
  const tcp::endpoint at = program.at();

  std::atomic<int> right{0}, wrong{0};
  auto use = [&](size_t client) {
    try {
      Client c(at);
      for (size_t i = 0;; ++i) {
        const Request& r = requests[(client * 7 + i) % requests.size()];
        c.send(r.values);
        const std::optional<Answer> a = c.receive();
        if (!a) return;  // between two replies
        ++(a->status == Status::ok && is_close(a->values(), r.expected) ? right : wrong);
      }
    } catch (const boost::system::system_error& e) {
      // connecting or sending to the server that has ended; a reply that is cut off would be end of file
      if (e.code() == asio::error::eof) ++wrong;
    }
  };
  std::vector<std::thread> clients;
  for (size_t i = 0; i < 8; ++i) clients.emplace_back(use, i);
  CHECK(becomes_true([&] { return right >= 100; }));
  program.signal(SIGTERM);
  CHECK(program.exit_code() == 0);
  for (std::thread& t : clients) t.join();
  CHECK(wrong == 0);
  CHECK(program.line() == "");
}

TEST_CASE("asio_server: serves an exported model", "[server]") {
  Watchdog watchdog(60s);
  ScratchFolder folder;
  auto net = make_net();
  const auto requests = requests_for(net, Shape(sample_size), 6, 3);
  net.hybridize();
  net(as_array(requests[0].values, Shape(sample_size)));
  net.export_model((folder / "net").string(), 3);
  Program program({"--port", "0", "--model", (folder / "net-symbol.json").string(), "--params",
                   (folder / "net-0003.params").string(), "--input", "20", "--threads", "1"});
  Client client(program.at());
  for (const Request& r : requests) CHECK(is_close(client.ask(r.values).values(), r.expected));
  program.signal(SIGINT);
  CHECK_FALSE(client.receive());
  client.leave();
  CHECK(program.exit_code() == 0);
}

TEST_CASE("asio_server: a bad option gives its exit code and what was expected", "[server]") {
  Watchdog watchdog(60s);
  auto fails = [](const std::vector<std::string>& arguments, int code, const std::string& text) {
    Program program(arguments);
    CHECK_THAT(program.line(), Catch::Matchers::StartsWith("asio_server: " + text));
    while (program.line() != "") continue;
    CHECK(program.exit_code() == code);
  };
  fails({"--ports", "1"}, 2, "unknown option '--ports'");
  fails({"--port"}, 2, "--port needs a value");
  fails({"--port", "70000"}, 2, "--port: expected a number from 0 to 65535, got '70000'");
  fails({"--threads", "0"}, 2, "--threads: expected a number from 1 to 256, got '0'");
  fails({"--net", "vgg"}, 2, "--net: expected lenet or mlp, got 'vgg'");
  fails({"--input", "1,,2"}, 2, "--input: expected a number from 1 to 1048576, got ''");
  fails({"--input", "28"}, 2, "--model, --params and --input go together");
  fails({"--address", "nowhere"}, 1, "");
  fails({"--model", "nowhere.json", "--params", "nowhere.params", "--input", "20"}, 1, "");
}

}  // namespace asio_server_test
