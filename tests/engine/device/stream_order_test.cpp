// Order on devices, on a device that does nothing earlier or later than it must.
#include "kaon/engine/device/stream_order.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "kaon/engine/device/stream_completions.h"
#include "kaon/tests/engine/device/fake_device.h"

namespace stream_order_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

// Arrays on a device, used by operations on several streams as an engine launches them: in the order of the program.
// What an operation finds in memory must be what the program wrote before it, and nothing that came after it.
class DeviceProgram {
 public:
  explicit DeviceProgram(uint64_t seed) : random_(seed), device_(seed, 12) {
    for (int s = 0; s < num_streams; ++s) {
      streams_.push_back(&device_.stream());
      REQUIRE(order_.add(*streams_.back()) == uint32_t(s));
      completions_.add(uint32_t(s), device_.stream());
    }
    arrays_.resize(6);
    for (Array& a : arrays_) make(a);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (below(12)) {
        case 0: remake(arrays_[below(arrays_.size())]); break;
        case 1: ask(arrays_[below(arrays_.size())]); break;
        case 2: ask_host(arrays_[below(arrays_.size())]); break;
        default: operate();
      }
      for (uint64_t n = below(6); n > 0; --n) progress();
    }
    while (!device_.is_idle() || !posted_.empty()) progress();
    for (const Array& a : arrays_) pool_.free(a.block, a.bytes, a.use->points());
    CHECK(wrong_ == 0);
    CHECK(asked_ == answered_);
  }

 private:
  static constexpr int num_streams = 4;

  struct Content {
    uint64_t array, version;
  };
  struct Array {
    void* block = nullptr;
    size_t bytes = 0;
    uint64_t number = 0, version = 0;
    StreamUse* use = nullptr;
    uint64_t written_by = 0;  // operation
  };

  uint64_t below(size_t n) { return random_() % n; }

  void progress() {
    if (below(3) == 0 && !posted_.empty()) {
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      return work();
    }
    device_.run_one();
    if (device_.is_idle() && !posted_.empty()) {
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }

  void make(Array& a) {
    const uint32_t s = uint32_t(below(num_streams));
    a.bytes = below(2) ? 100 : 5000;
    for (;;) {
      try {
        a.block = pool_.allocate(a.bytes, s);
        break;
      } catch (const MemoryError&) {
        FAIL("there is memory for all arrays");
      }
    }
    a.number = ++numbers_;
    a.version = 0;
    uses_.push_back(std::make_unique<StreamUse>());
    a.use = uses_.back().get();
    launch(s, {}, &a, false);
  }
  void remake(Array& a) {
    pool_.free(a.block, a.bytes, a.use->points());
    make(a);
  }

  void operate() {
    const uint32_t s = uint32_t(below(num_streams));
    std::set<Array*> reads;
    for (uint64_t n = below(4); n > 0; --n) reads.insert(&arrays_[below(arrays_.size())]);
    Array* written = &arrays_[below(arrays_.size())];
    reads.erase(written);
    if (below(4) == 0) written = nullptr;
    launch(s, reads, written, below(2) == 0);
  }

  void launch(uint32_t s, const std::set<Array*>& reads, Array* written, bool updates) {
    std::vector<std::pair<const Content*, Content>> expected;
    for (Array* a : reads) {
      a->use->order_before(order_, s, false);
      expected.push_back({static_cast<Content*>(a->block), {a->number, a->version}});
    }
    Content* target = nullptr;
    Content after{};
    if (written) {
      written->use->order_before(order_, s, true);
      target = static_cast<Content*>(written->block);
      if (updates) expected.push_back({target, {written->number, written->version}});
      after = {written->number, ++written->version};
    }
    const uint64_t op = ++ops_;
    streams_[s]->launch([this, expected, target, after, op] {
      for (const auto& [at, content] : expected) {
        wrong_ += at->array != content.array || at->version != content.version;
      }
      if (target) *target = after;
      executed_.insert(op);
    });
    const StreamPoint point = order_.launched(s);
    for (Array* a : reads) a->use->add(point, false);
    if (!written) return;
    written->use->add(point, true);
    written->written_by = op;
  }

  void ask(const Array& a) {
    if (order_.is_done(a.use->write())) wrong_ += !executed_.count(a.written_by);
  }
  void ask_host(const Array& a) {
    ++asked_;
    completions_.when_done(a.use->write(), [this, op = a.written_by](std::exception_ptr failure) {
      ++answered_;
      wrong_ += failure || !executed_.count(op);
    });
  }

  std::mt19937_64 random_;
  FakeDevice device_;
  StreamOrder order_;
  StreamPool pool_{device_, order_};
  std::deque<std::function<void()>> posted_;
  StreamCompletions completions_{order_, [this](std::function<void()> work) { posted_.push_back(std::move(work)); }};
  std::vector<FakeStream*> streams_;
  std::vector<Array> arrays_;
  std::vector<std::unique_ptr<StreamUse>> uses_;
  std::set<uint64_t> executed_;
  uint64_t numbers_ = 0, ops_ = 0;
  int wrong_ = 0, asked_ = 0, answered_ = 0;
};

}  // namespace

TEST_CASE("stream order: 10,000 random programs see what was written before them", "[engine][stream]") {
  for (uint64_t seed = 1; seed <= 10000; ++seed) {
    INFO("seed " << seed);
    DeviceProgram(seed).run(60);
  }
}

TEST_CASE("stream order: a chain on one stream costs no event", "[engine][stream]") {
  FakeDevice device(1);
  FakeStream& s = device.stream();
  StreamOrder order;
  const uint32_t compute = order.add(s);
  StreamUse use;
  for (int i = 0; i < 100; ++i) {
    use.order_before(order, compute, true);
    s.launch([] {});
    use.add(order.launched(compute), true);
  }
  CHECK(s.events == 0);
  CHECK(s.waits == 0);
}

TEST_CASE("stream order: events are recorded when somebody asks, and serve all who ask for less", "[engine][stream]") {
  FakeDevice device(1);
  FakeStream &a = device.stream(), &b = device.stream(), &c = device.stream();
  StreamOrder order;
  const uint32_t na = order.add(a), nb = order.add(b), nc = order.add(c);
  StreamPoint points[4];
  for (StreamPoint& p : points) {
    a.launch([] {});
    p = order.launched(na);
  }
  CHECK(a.events == 0);
  order.wait(nb, points[1]);  // recorded at the end: it covers the later ones too
  CHECK(a.events == 1);
  order.wait(nc, points[3]);
  order.wait(nb, points[3]);
  CHECK(a.events == 1);
  CHECK(b.waits == 1);
  CHECK(c.waits == 1);
  a.launch([] {});
  order.wait(nb, order.launched(na));
  CHECK(a.events == 2);
  CHECK(b.waits == 2);
  CHECK(order.stats().skipped == 1);
}

TEST_CASE("stream order: what a stream has waited for holds for those who wait for it", "[engine][stream]") {
  FakeDevice device(1);
  FakeStream &a = device.stream(), &b = device.stream(), &c = device.stream();
  StreamOrder order;
  const uint32_t na = order.add(a), nb = order.add(b), nc = order.add(c);
  a.launch([] {});
  const StreamPoint first = order.launched(na);
  order.wait(nb, first);
  b.launch([] {});
  order.wait(nc, order.launched(nb));
  order.wait(nc, first);
  CHECK(c.waits == 1);
  CHECK(order.stats().skipped == 1);
}

TEST_CASE("stream order: nobody waits for what is known to be done", "[engine][stream]") {
  FakeDevice device(1);
  FakeStream &a = device.stream(), &b = device.stream();
  StreamOrder order;
  const uint32_t na = order.add(a), nb = order.add(b);
  a.launch([] {});
  const StreamPoint p = order.launched(na);
  CHECK_FALSE(order.is_done(p));
  device.run_all();
  CHECK(order.is_done(p));
  order.wait(nb, p);
  CHECK(b.waits == 0);
  CHECK(order.is_done({nb, 0}));
}

TEST_CASE("stream pool: a block is reused at once on its stream and in order on others", "[engine][stream]") {
  FakeDevice device(1);
  FakeStream &a = device.stream(), &b = device.stream();
  StreamOrder order;
  const uint32_t na = order.add(a), nb = order.add(b);
  StreamPool pool(device, order);
  void* block = pool.allocate(1000, na);
  a.launch([] {});
  const StreamPoint use[] = {order.launched(na)};
  pool.free(block, 1000, use);
  CHECK(pool.allocate(1000, na) == block);
  CHECK(a.events == 0);
  pool.free(block, 1000, use);
  CHECK(pool.allocate(990, nb) == block);  // of the same size class
  CHECK(b.waits == 1);
  CHECK(pool.stats().live == StreamPool::block_bytes(1000));
  pool.free(block, 990, {});
  CHECK(pool.stats().live == 0);
  CHECK(pool.stats().cached == StreamPool::block_bytes(1000));
  pool.trim();
  CHECK(pool.stats().reserved == 0);
}

TEST_CASE("stream pool: sizes are rounded up by less than a quarter", "[engine][stream]") {
  for (size_t bytes : {size_t(0), size_t(1), size_t(512), size_t(513), size_t(640), size_t(641), size_t(1) << 20,
                       (size_t(1) << 20) + 1, size_t(1234567)}) {
    const size_t block = StreamPool::block_bytes(bytes);
    INFO(bytes << " -> " << block);
    CHECK(block >= std::max<size_t>(bytes, 512));
    CHECK(block <= std::max<size_t>(bytes + bytes / 4, 512));
    CHECK(StreamPool::block_bytes(block) == block);
  }
}

TEST_CASE("stream pool: where there is no memory it gives back what is cached, then says what is held",
          "[engine][stream]") {
  FakeDevice device(1, 2);
  FakeStream& a = device.stream();
  StreamOrder order;
  const uint32_t na = order.add(a);
  StreamPool pool(device, order);
  void* small = pool.allocate(1000, na);
  void* large = pool.allocate(100000, na);
  pool.free(small, 1000, {});
  void* other = pool.allocate(50000, na);  // the small one goes back to the device for it
  CHECK_THROWS_WITH(pool.allocate(700, na), Catch::Contains("requested 700 bytes") && Catch::Contains("limit none"));
  pool.free(other, 50000, {});
  pool.set_limit(120000);
  CHECK_THROWS_AS(pool.allocate(50000, na), MemoryError);
  pool.free(large, 100000, {});
  pool.free(pool.allocate(50000, na), 50000, {});
}

namespace {

// A stream, and somebody who asks after each launch when it has run.
struct Asking {
  FakeDevice device{1};
  FakeStream &stream = device.stream(), &signals = device.stream();
  StreamOrder order;
  const uint32_t number = order.add(stream);
  std::deque<std::function<void()>> posted;
  StreamCompletions completions{order, [this](std::function<void()> work) { posted.push_back(std::move(work)); }};
  int answers = 0, failures = 0;

  Asking() { completions.add(number, signals); }
  void ask() {
    stream.launch([] {});
    completions.when_done(order.launched(number),
                          [this](std::exception_ptr failure) { ++(failure ? failures : answers); });
  }
  bool run_posted() {
    if (posted.empty()) return false;
    const std::function<void()> work = std::move(posted.front());
    posted.pop_front();
    work();
    return true;
  }
};

}  // namespace

TEST_CASE("stream completions: one call answers all who asked meanwhile", "[engine][stream]") {
  Asking q;
  for (int i = 0; i < 100; ++i) q.ask();
  CHECK(q.answers == 0);
  do q.device.run_all();
  while (q.run_posted());
  CHECK(q.answers == 100);
  CHECK(q.completions.calls() == 2);  // for the first, and for those who came while it was on its way
}

TEST_CASE("stream completions: all who wait for a device that fails are told", "[engine][stream]") {
  Asking q;
  q.ask();
  q.ask();
  q.device.fail();
  q.ask();  // who asks later is told as well
  while (q.run_posted()) {
  }
  CHECK(q.failures == 3);
  CHECK(q.answers == 0);
  CHECK_THROWS_AS(q.order.is_done(q.order.end(q.number)), DeviceError);
}

TEST_CASE("stream order: a retired stream's number goes to another one, which runs after it", "[engine]") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FakeDevice device(seed);
    FakeStream &first = device.stream(), &second = device.stream(), &reader = device.stream();
    StreamOrder order;
    const uint32_t number = order.add(first), other = order.add(reader);
    int value = 0, seen = 0, seen_by_reader = 0;
    first.launch([&] { value = 1; });
    const StreamPoint written = order.launched(number);
    order.retire(number);
    order.reuse(number, second);
    second.launch([&] { seen = value; });  // on the same number: nobody orders it
    order.launched(number);
    order.wait(other, written);
    reader.launch([&] { seen_by_reader = value; });
    order.launched(other);
    device.run_all();
    CHECK(seen == 1);
    CHECK(seen_by_reader == 1);
  }
}

}  // namespace stream_order_test
