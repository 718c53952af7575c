#include "kaon/comm/watch/watch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace kaon::comm {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

namespace {

// asks: which ranks have begun a call; begun: that one has. waiting: a rank's call that waits.
enum class MessageKind : uint32_t { sign, failure, goodbye, asks, begun, waiting };

// A message: its kind, the length of what follows, and that.
struct Header {
  uint32_t kind, length;
};
constexpr uint32_t most_bytes = 1 << 20;

std::string message(MessageKind kind, std::string_view text) {
  const Header header{uint32_t(kind), uint32_t(std::min<size_t>(text.size(), most_bytes))};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes += text.substr(0, header.length);
  return bytes;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// The addresses of this machine that others may reach, loopback aside.
std::vector<std::string> addresses() {
  std::vector<std::string> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (ifaddrs* a = all; a; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(a->ifa_addr)->sin_addr, text, sizeof text);
    if (std::string_view(text) != "127.0.0.1") found.emplace_back(text);
  }
  freeifaddrs(all);
  return found;
}

// Ranks at distances of powers of two: each has few neighbours, and news is everywhere in few steps.
std::set<int> neighbours_of(int rank, int size) {
  std::set<int> all;
  for (int step = 1; step < size; step *= 2) {
    all.insert((rank + step) % size);
    all.insert((rank - step + size) % size);
  }
  all.erase(rank);
  return all;
}

std::string write_progress(const std::vector<Progress>& all) {
  std::string text;
  for (const Progress& p : all) text += fmt::format("{} {} {} {}\n", p.communicator, p.place, p.history, p.call);
  return text;
}

std::vector<Progress> read_progress(const std::string& text) {
  std::vector<Progress> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Progress p;
    words >> p.communicator >> p.place >> p.history;
    words.get();
    std::getline(words, p.call);
    all.push_back(std::move(p));
  }
  return all;
}

}  // namespace

struct Watch::Impl {
  using CallKey = std::pair<uint64_t, uint64_t>;  // communicator and place
  struct Neighbour {
    explicit Neighbour(int rank, asio::io_context& io) : rank(rank), socket(io) {}
    const int rank;
    tcp::socket socket;
    Header header{};
    std::string body;
    std::deque<std::string> out;
    Clock::time_point last_seen = Clock::now();
    bool is_open = true;
  };

  Impl(Group& group, const Options& options, Callbacks callbacks)
      : rank(group.rank()), size(group.size()), timeout(options.timeout), callbacks(std::move(callbacks)) {
    if (size == 1) return;
    connect(group);
    for (auto& [r, n] : neighbours) read_next(*n);
    tick();
    // Signals are for the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread = std::thread([this] { io.run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    if (!thread.joinable()) return;
    asio::post(io, [this] {
      is_ending = true;
      timer.cancel();
      suspicion.cancel();
      close_when_sent();
    });
    thread.join();
  }

  void connect(Group& group) {
    tcp::acceptor acceptor(io, tcp::endpoint(tcp::v4(), 0));
    std::string card = fmt::format("{} {}", host_name(), acceptor.local_endpoint().port());
    for (const std::string& a : addresses()) card += " " + a;
    const std::vector<std::string> cards = group.exchange(card);
    const auto until = Clock::now() + std::max<Clock::duration>(timeout, std::chrono::seconds(10));
    const std::set<int> near = neighbours_of(rank, size);
    // The lower rank of a pair calls the higher one.
    for (const int r : near) {
      if (r < rank) continue;
      auto n = std::make_unique<Neighbour>(r, io);
      call(*n, cards[size_t(r)]);
      const int32_t mine = rank;
      asio::write(n->socket, asio::buffer(&mine, sizeof mine));
      neighbours.emplace(r, std::move(n));
    }
    for (size_t missing = size_t(std::count_if(near.begin(), near.end(), [&](int r) { return r < rank; }));
         missing > 0;) {
      tcp::socket socket(io);
      boost::system::error_code error;
      if (!await_input(acceptor.native_handle(), until)) {
        throw CommError(fmt::format("[mpi] {} ranks have not called rank {} for signs of life", missing, rank));
      }
      acceptor.accept(socket, error);
      int32_t theirs = -1;
      if (!error && await_input(socket.native_handle(), until)) {
        asio::read(socket, asio::buffer(&theirs, sizeof theirs), error);
      }
      if (error || theirs < 0 || theirs >= rank || near.count(theirs) == 0 || neighbours.count(theirs) != 0)
        continue;  // not a rank
      auto n = std::make_unique<Neighbour>(theirs, io);
      n->socket = std::move(socket);
      neighbours.emplace(theirs, std::move(n));
      --missing;
    }
    for (auto& [r, n] : neighbours) n->socket.set_option(tcp::no_delay(true));
  }

  static bool await_input(int socket, Clock::time_point until) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
      const int n = ::poll(&waiting, 1, int(std::max<int64_t>(left, 0)));
      if (n >= 0 || errno != EINTR) return n > 0;
    }
  }

  // To one of the addresses on the card.
  void call(Neighbour& n, const std::string& card) {
    std::istringstream words(card);
    std::string host;
    uint16_t port = 0;
    words >> host >> port;
    std::vector<std::string> tries;
    if (host == host_name()) tries.push_back("127.0.0.1");
    for (std::string a; words >> a;) tries.push_back(a);
    std::string why;
    for (const std::string& a : tries) {
      boost::system::error_code error;
      n.socket.close(error);
      n.socket.connect(tcp::endpoint(asio::ip::make_address(a), port), error);
      if (!error) return;
      why += fmt::format("{} {}:{}: {}", why.empty() ? "" : ";", a, port, error.message());
    }
    throw CommError(fmt::format("[mpi] rank {} cannot reach rank {} for signs of life:{}", rank, n.rank, why));
  }

  void read_next(Neighbour& n) {
    asio::async_read(
        n.socket, asio::buffer(&n.header, sizeof n.header), [this, &n](const boost::system::error_code& error, size_t) {
          if (error || n.header.length > most_bytes) return lose(n);
          n.body.resize(n.header.length);
          asio::async_read(n.socket, asio::buffer(n.body), [this, &n](const boost::system::error_code& e, size_t) {
            if (e) return lose(n);
            take(n);
            read_next(n);
          });
        });
  }

  void lose(Neighbour& n) {
    n.is_open = false;
    boost::system::error_code ignored;
    n.socket.close(ignored);
    if (is_ending || all_are_gone()) return;
    // A rank that has said goodbye stays until all have.
    fail(fmt::format("rank {} has {}", n.rank, gone.count(n.rank) ? "ended its program" : "died"));
  }

  void take(Neighbour& n) {
    n.last_seen = Clock::now();
    switch (MessageKind(n.header.kind)) {
      case MessageKind::sign:
        if (has_failed) return;
        for (const Progress& p : read_progress(n.body)) {
          if (const std::string why = callbacks.differs(n.rank, p); !why.empty()) return fail(why);
        }
        return;
      case MessageKind::failure: fail(n.body); return;
      case MessageKind::goodbye: {
        leave(std::atoi(n.body.c_str()));
        return;
      }
      case MessageKind::asks:
      case MessageKind::begun: {
        std::istringstream words(n.body);
        CallKey call;
        int who = -1;
        words >> call.first >> call.second >> who;
        if (who < 0) ask(call);
        else note_begun(call, who);
        return;
      }
      case MessageKind::waiting: {
        std::istringstream words(n.body);
        uint64_t number = 0;
        Waiting w;
        words >> number >> w.communicator >> w.begun >> w.rank >> w.peer;
        words.get();
        std::getline(words, w.call);
        note_waiting(number, w);
        return;
      }
    }
  }

  bool all_are_gone() const { return gone.size() == size_t(size); }

  void leave(int who) {
    if (!gone.insert(who).second) return;
    tell(MessageKind::goodbye, std::to_string(who));
    if (all_are_gone()) answer(true);
  }

  // --- calls that run for long on GPUs: whether all ranks have begun them

  void ask(const CallKey& call) {
    if (!asked.try_emplace(call).second) return;
    tell(MessageKind::asks, fmt::format("{} {}", call.first, call.second));
  }
  void note_begun(const CallKey& call, int who) {
    if (!asked[call].ranks.insert(who).second) return;
    tell(MessageKind::begun, fmt::format("{} {} {}", call.first, call.second, who));
  }
  void look_at_long_calls(Clock::time_point now) {
    const Clock::duration half = timeout / 2;
    const std::vector<LongCall> calls = callbacks.long_calls(half);
    for (const LongCall& c : calls) ask(c.key());
    for (const auto& [call, begun] : std::map(asked)) {
      if (callbacks.has_begun(call.first, call.second)) note_begun(call, rank);
    }
    for (const LongCall& c : calls) {
      Asked& begun = asked[c.key()];
      if (begun.ranks.size() < c.ranks) continue;
      if (begun.all_since == Clock::time_point()) begun.all_since = now;
      if (now - begun.all_since < half) continue;
      return fail(fmt::format("call {}, {}, has not come to its end on rank {} for {} ms, although all ranks are in it",
                              c.place - 1, c.call, rank,
                              std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
    }
  }

  // --- calls that wait for each other

  // Every rank hears of it; again at each sign of life, as long as it waits.
  void note_waiting(uint64_t number, const Waiting& w) {
    Heard& last = heard[{w.communicator, w.rank}];
    if (number <= last.number) return;
    last = {number, w, Clock::now()};
    tell(MessageKind::waiting,
         fmt::format("{} {} {} {} {} {}", number, w.communicator, w.begun, w.rank, w.peer, w.call));
  }
  void look_at_waiting(Clock::time_point now) {
    for (const Waiting& own : callbacks.waiting(timeout / 2)) {
      note_waiting(++notes, own);
      if (own.peer < 0) continue;
      const auto other = heard.find({own.communicator, own.peer});
      // Heard since this rank's own call waits: both have waited at one time. The last bytes that the other one has
      // sent may still be on their way, for less than a few signs of life.
      if (other == heard.end() || now - other->second.when > 3 * interval()) continue;
      const Waiting& theirs = other->second.what;
      if (!own.waits_for_each_other(theirs)) continue;
      Suspicion& s = suspicions[own.communicator];
      if (s.place != own.place || now - s.last > 2 * interval()) s = {own.place, now, now};
      s.last = now;
      if (now - s.first < 3 * interval()) continue;
      return fail(fmt::format("rank {} and rank {} wait for each other: the one in {}, the other in {}", own.rank,
                              theirs.rank, own.call, theirs.call));
    }
  }

  void answer(bool is_whole) {
    if (auto* waiting = std::exchange(leaving, nullptr)) waiting->set_value(is_whole);
  }

  void fail(const std::string& text) {
    if (std::exchange(has_failed, true)) return;
    tell(MessageKind::failure, text);
    callbacks.failed(text);
    answer(false);
  }

  void tell(MessageKind kind, std::string_view text) {
    for (auto& [r, n] : neighbours) {
      if (n->is_open) write(*n, message(kind, text));
    }
  }

  void write(Neighbour& n, std::string bytes) {
    n.out.push_back(std::move(bytes));
    if (n.out.size() == 1) write_next(n);
  }
  void write_next(Neighbour& n) {
    asio::async_write(n.socket, asio::buffer(n.out.front()),
                      [this, &n](const boost::system::error_code& error, size_t) {
                        n.out.pop_front();
                        if (error) n.out.clear();  // the read finds out why
                        if (!n.out.empty()) return write_next(n);
                        if (is_ending) close_when_sent();
                      });
  }

  void tick() {
    const auto now = Clock::now();
    // A process that was stopped itself has missed the others' signs.
    const bool slept = now - last_tick > timeout / 2;
    last_tick = now;
    if (!has_failed) tell(MessageKind::sign, write_progress(callbacks.progress()));
    for (auto& [r, n] : neighbours) {
      if (slept) n->last_seen = now;
      if (!n->is_open || all_are_gone() || now - n->last_seen <= timeout) continue;
      fail(fmt::format("rank {} has given no sign of life for {} ms", r,
                       std::chrono::duration_cast<std::chrono::milliseconds>(now - n->last_seen).count()));
    }
    if (!has_failed) look_at_long_calls(now);
    if (!has_failed) look_at_waiting(now);
    if (!has_failed && callbacks.waits(gone)) {
      fail(fmt::format("rank {} has ended its program", *gone.begin()));
    }
    timer.expires_after(interval());
    timer.async_wait([this](const boost::system::error_code& error) {
      if (!error && !is_ending) tick();
    });
  }

  Clock::duration interval() const {  // of signs of life
    return std::clamp<Clock::duration>(timeout / 10, std::chrono::milliseconds(10), std::chrono::seconds(1));
  }

  void close_when_sent() {
    for (auto& [r, n] : neighbours) {
      if (n->is_open && !n->out.empty() && !has_failed) return;
    }
    io.stop();
  }

  const int rank, size;
  const Clock::duration timeout;
  const Callbacks callbacks;
  asio::io_context io{1};
  asio::steady_timer timer{io}, suspicion{io};
  std::map<int, std::unique_ptr<Neighbour>> neighbours;
  std::set<int> gone;  // have said goodbye
  struct Asked {
    std::set<int> ranks;  // have begun it
    Clock::time_point all_since{};
  };
  std::map<CallKey, Asked> asked;
  struct Heard {
    uint64_t number = 0;
    Waiting what;
    Clock::time_point when{};
  };
  std::map<std::pair<uint64_t, int>, Heard> heard;  // of calls that wait, by communicator and rank
  struct Suspicion {
    uint64_t place = 0;  // of this rank's call
    Clock::time_point first{}, last{};
  };
  std::map<uint64_t, Suspicion> suspicions;  // by communicator
  uint64_t notes = 0;                        // of this rank, so that each is passed on once
  std::promise<bool>* leaving = nullptr;
  Clock::time_point last_tick = Clock::now();
  bool has_failed = false, is_ending = false, suspects = false;
  std::thread thread;  // runs everything above
};

Watch::Watch(Group& group, const Options& options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(group, options, std::move(callbacks))) {}
Watch::~Watch() = default;

void Watch::report(const std::string& failure) {
  if (!impl_->thread.joinable()) return impl_->callbacks.failed(failure);
  asio::post(impl_->io, [this, failure] { impl_->fail(failure); });
}

void Watch::report_unless_explained(const std::string& failure) {
  if (!impl_->thread.joinable()) return impl_->callbacks.failed(failure);
  asio::post(impl_->io, [this, failure] {
    if (impl_->suspects) return;
    impl_->suspects = true;
    impl_->suspicion.expires_after(2 * impl_->interval());
    impl_->suspicion.async_wait([this, failure](const boost::system::error_code& error) {
      if (!error) impl_->fail(failure);
    });
  });
}

bool Watch::say_goodbye() {
  if (!impl_->thread.joinable()) return true;
  std::promise<bool> answer;
  asio::post(impl_->io, [&] {
    impl_->leaving = &answer;
    if (impl_->has_failed) return impl_->answer(false);
    impl_->leave(impl_->rank);
  });
  return answer.get_future().get();
}

}  // namespace kaon::comm
