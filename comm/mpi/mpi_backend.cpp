// libkaon_mpi.so: collectives by MPI. A library of its own, so that a program without ranks does not depend on MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/check.h"
#include "kaon/comm/mpi/ring.h"
#include "kaon/comm/mpi/transport.h"
#include "kaon/engine/block_pool.h"
#include "kaon/ops/half.h"

namespace kaon::comm {
namespace {

// MPI counts in int: longer arrays go in pieces.
constexpr int64_t most_elements = int64_t(1) << 30;
constexpr int exchange_tag = 1;  // sends have 0

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::uint8:
    case DType::boolean: return MPI_UINT8_T;
    case DType::int8: return MPI_INT8_T;
    case DType::int16: return MPI_INT16_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16: return MPI_UINT16_T;
    case DType::uint32: return MPI_UINT32_T;
    case DType::uint64: return MPI_UINT64_T;
  }
  throw CommError("[mpi] unknown dtype");
}

// MPI has no arithmetic on halves.
template <class T, Reduce op>
void reduce_halves(void* in, void* in_out, int* count, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) {
    const float x = float(a[i]), y = float(b[i]);
    if constexpr (op == Reduce::sum) b[i] = T(x + y);
    if constexpr (op == Reduce::prod) b[i] = T(x * y);
    if constexpr (op == Reduce::min) b[i] = x < y || x != x ? a[i] : b[i];
    if constexpr (op == Reduce::max) b[i] = x > y || x != x ? a[i] : b[i];
  }
}

class Operations {
 public:
  Operations() {
    make<float16>(0);
    make<bfloat16>(4);
  }
  MPI_Op get(Reduce op, DType dtype) const {
    if (dtype == DType::float16) return halves_[index(op)];
    if (dtype == DType::bfloat16) return halves_[4 + index(op)];
    switch (op) {
      case Reduce::sum:
      case Reduce::mean: return MPI_SUM;  // the communicator divides
      case Reduce::min: return MPI_MIN;
      case Reduce::max: return MPI_MAX;
      case Reduce::prod: return MPI_PROD;
    }
    throw CommError("[mpi] unknown reduction");
  }

 private:
  static size_t index(Reduce op) {
    return op == Reduce::sum || op == Reduce::mean ? 0 : op == Reduce::min ? 1 : op == Reduce::max ? 2 : 3;
  }
  template <class T>
  void make(size_t first) {
    MPI_User_function* const functions[] = {reduce_halves<T, Reduce::sum>, reduce_halves<T, Reduce::min>,
                                            reduce_halves<T, Reduce::max>, reduce_halves<T, Reduce::prod>};
    for (size_t i = 0; i < 4; ++i) check(MPI_Op_create(functions[i], 1, &halves_[first + i]), "mpi");
  }
  MPI_Op halves_[8];
};
const Operations& operations() {
  static const Operations* const all = new Operations;
  return *all;
}

// What MPI does by itself once it has been asked to.
class Requests final : public Pending, public engine::Pooled {
 public:
  explicit Requests(const char* name) : name_(name) {}
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  // The latest of them receives this number of elements.
  void expect(int count, MPI_Datatype type, int from) {
    counts_.resize(requests_.size(), -1);
    counts_.back() = count;
    type_ = type;
    from_ = from;
  }
  bool has_ended() override {
    // OpenMPI 4 makes progress with its collectives at every eighth look only.
    constexpr int looks = 8;
    int done = 0;
    statuses_.resize(requests_.size());
    for (int i = 0; i < looks && !done; ++i) {
      const int code = MPI_Testall(int(requests_.size()), requests_.data(), &done, statuses_.data());
      if (code == MPI_SUCCESS) continue;
      for (const MPI_Status& s : statuses_) {
        if (code == MPI_ERR_IN_STATUS && s.MPI_ERROR != MPI_ERR_PENDING) check(s.MPI_ERROR, name_);
      }
      check(code, name_);
    }
    for (size_t i = 0; done && i < counts_.size(); ++i) {
      int got = 0;
      if (counts_[i] < 0) continue;
      check(MPI_Get_count(&statuses_[i], type_, &got), name_);
      if (got != counts_[i])
        throw CommError(fmt::format("[{}] expected {} elements from rank {}, got {}", name_, counts_[i], from_, got));
    }
    return done != 0;
  }

 private:
  const char* const name_;
  engine::PooledVector<MPI_Request> requests_;
  engine::PooledVector<MPI_Status> statuses_;
  engine::PooledVector<int> counts_;  // -1: not one that receives
  MPI_Datatype type_ = MPI_BYTE;
  int from_ = 0;
};

// What a rank does for a short all_reduce, by recursive doubling: in each step the ranks whose numbers differ in one
// bit exchange what they have so far. Ranks beyond the last power of two give theirs to a neighbour first and get the
// result from it in the end. (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in
// MPICH, 2005.) MPI_Iallreduce would do, but OpenMPI 4 makes progress with it at every eighth look only, and where
// ranks share a core each look may take a turn of the scheduler's.
struct ShortSteps {
  static constexpr int64_t most_bytes = 64 << 10;  // times the number of steps
  enum class Kind : uint8_t { exchange, give, add, get };
  struct Step {
    int peer;
    Kind kind;
  };

  ShortSteps(int rank, int size) {
    const int rest = size - int(std::bit_floor(unsigned(size))), own = rank < 2 * rest ? rank / 2 : rank - rest;
    const bool is_paired = rank < 2 * rest;
    if (is_paired && rank % 2 == 0) {
      steps = {{rank + 1, Kind::give}, {rank + 1, Kind::get}};
    } else {
      if (is_paired) steps.push_back({rank - 1, Kind::add});
      for (int bit = 1; bit < size - rest; bit *= 2) {
        const int peer = own ^ bit;
        steps.push_back({peer < rest ? 2 * peer + 1 : peer + rest, Kind::exchange});
      }
      if (is_paired) steps.push_back({rank - 1, Kind::give});
    }
    longest = most_bytes / std::max(1, int(std::bit_width(unsigned(size) - 1)));
  }

  std::vector<Step> steps;
  int64_t longest;                                                // the bytes of an array that is short
  std::unique_ptr<std::byte[]> other{new std::byte[most_bytes]};  // another rank's part
  std::unique_ptr<std::byte[]> spare;                             // the memory of the call that has ended last
};

// AddressSanitizer is to see every life of a call.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool sees_every_life = true;
#elif defined(__has_feature)
constexpr bool sees_every_life = __has_feature(address_sanitizer);
#else
constexpr bool sees_every_life = false;
#endif

class ShortAllReduce final : public Pending {
 public:
  ShortAllReduce(const Call& call, std::shared_ptr<ShortSteps> all, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                 int rank)
      : all_(std::move(all)),
        out_(static_cast<std::byte*>(call.out)),
        count_(int(call.count)),
        bytes_(int(call.count * int64_t(size_of(call.dtype)))),
        type_(type),
        op_(op),
        comm_(comm),
        rank_(rank) {
    if (call.in != call.out && bytes_ > 0) std::memcpy(out_, call.in, size_t(bytes_));
  }
  // A group's calls follow each other: each takes the memory of the one before.
  static void* operator new(size_t bytes, ShortSteps& all) {
    return all.spare ? all.spare.release() : new std::byte[bytes];
  }
  static void operator delete(void* memory, ShortSteps&) { delete[] static_cast<std::byte*>(memory); }
  static void operator delete(ShortAllReduce* call, std::destroying_delete_t) {
    const std::shared_ptr<ShortSteps> all = call->all_;
    call->~ShortAllReduce();
    auto* const memory = reinterpret_cast<std::byte*>(call);
    if constexpr (sees_every_life) delete[] memory;
    else all->spare.reset(memory);
  }

  bool has_ended() override {
    for (; at_ < all_->steps.size(); ++at_, has_begun_ = false) {
      const auto [peer, kind] = all_->steps[at_];
      if (!has_begun_) begin(peer, kind);
      int done = 0;
      MPI_Status states[2];
      check(MPI_Testall(2, requests_, &done, states), "all_reduce");
      if (!done) return false;
      if (kind == Kind::give) continue;
      // A rank that has sent another number of bytes has called something else, which the watch will find.
      if (!is_counted_) MPI_Get_count(&states[0], MPI_BYTE, &got_), is_counted_ = true;
      if (got_ != bytes_) return false;
      if (kind == Kind::get) {
        copy_other();
      } else {
        reduce(peer);
      }
    }
    return true;
  }

 private:
  using Kind = ShortSteps::Kind;

  void begin(int peer, Kind kind) {
    constexpr int tag = 1;  // a program's own sends have 0
    requests_[0] = requests_[1] = MPI_REQUEST_NULL;
    is_counted_ = false;
    has_begun_ = true;
    if (kind != Kind::give) {
      check(MPI_Irecv(all_->other.get(), int(ShortSteps::most_bytes), MPI_BYTE, peer, tag, comm_, &requests_[0]),
            "all_reduce");
    }
    if (kind == Kind::give || kind == Kind::exchange) {
      check(MPI_Isend(out_, bytes_, MPI_BYTE, peer, tag, comm_, &requests_[1]), "all_reduce");
    }
  }
  void copy_other() {
    if (bytes_ > 0) std::memcpy(out_, all_->other.get(), size_t(bytes_));
  }
  // The lower rank's first: the same bits on both sides, also of NaN.
  void reduce(int peer) {
    std::byte *first = out_, *second = all_->other.get();
    if (peer < rank_) std::swap(first, second);
    check(MPI_Reduce_local(first, second, count_, type_, op_), "all_reduce");  // to the second one
    if (second != out_) copy_other();
  }

  const std::shared_ptr<ShortSteps> all_;
  std::byte* const out_;
  const int count_, bytes_;
  const MPI_Datatype type_;
  const MPI_Op op_;
  const MPI_Comm comm_;
  const int rank_;
  size_t at_ = 0;
  bool has_begun_ = false;
  int got_ = 0, is_counted_ = false;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

class MpiGroup final : public Group {
 public:
  explicit MpiGroup(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "mpi");
    check(MPI_Comm_rank(comm, &rank_), "mpi");
    check(MPI_Comm_size(comm, &size_), "mpi");
    MPI_Comm local;
    check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local), "mpi");
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_size(local, &local_size_);
    MPI_Comm_free(&local);
    short_ = std::make_shared<ShortSteps>(rank_, size_);
    shares_memory_ = local_size_ == size_ && uses_shared_memory();
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  bool shares_memory() const override { return shares_memory_; }

  std::unique_ptr<Pending> begin(const Call& c) override {
    const MPI_Datatype type = type_of(c.dtype);
    const int64_t bytes = int64_t(size_of(c.dtype));
    switch (c.kind) {
      case Kind::all_reduce: {
        const MPI_Op op = operations().get(c.op, c.dtype);
        if (c.count * bytes <= short_->longest) {
          return std::unique_ptr<Pending>(new (*short_) ShortAllReduce(c, short_, type, op, comm_, rank_));
        }
        // Of many ranks: the way round all of them is long.
        if (c.count * bytes < least_ring_bytes * size_) {
          auto sum = std::make_unique<Requests>("all_reduce");
          const void* in = c.in == c.out ? MPI_IN_PLACE : c.in;
          check(MPI_Iallreduce(in, c.out, int(c.count), type, op, comm_, sum->add()), "all_reduce");
          return sum;
        }
        return std::make_unique<Ring>(c, parts_, free_memory(), type, op, comm_, rank_, size_, lane_of(c));
      }
      case Kind::reduce_scatter:
      case Kind::all_gather: {
        if (c.counts) {
          parts_.assign(c.counts->begin(), c.counts->end());
        } else {
          parts_.assign(size_t(size_), c.count);
        }
        const MPI_Op op = c.kind == Kind::reduce_scatter ? operations().get(c.op, c.dtype) : MPI_OP_NULL;
        return std::make_unique<Ring>(c, parts_, free_memory(), type, op, comm_, rank_, size_, lane_of(c));
      }
      case Kind::broadcast: {
        auto all = std::make_unique<Requests>("broadcast");
        in_pieces(c.count, [&](int64_t at, int n) {
          check(MPI_Ibcast(byte(c.out, at * bytes), n, type, c.peer, comm_, all->add()), "broadcast");
        });
        return all;
      }
      case Kind::exchange: {
        auto both = std::make_unique<Requests>("exchange");
        in_pieces(c.count, [&](int64_t at, int n) {
          check(MPI_Irecv(byte(c.out, at * bytes), n, type, c.peer, exchange_tag, comm_, both->add()), "exchange");
          check(MPI_Isend(byte(c.in, at * bytes), n, type, c.peer, exchange_tag, comm_, both->add()), "exchange");
        });
        return both;
      }
      case Kind::recv: {
        auto got = std::make_unique<Requests>("recv");
        in_pieces(c.count, [&](int64_t at, int n) {
          check(MPI_Irecv(byte(c.out, at * bytes), n, type, c.peer, 0, comm_, got->add()), "recv");
          got->expect(n, type, c.peer);
        });
        return got;
      }
      case Kind::send: {
        auto sent = std::make_unique<Requests>("send");
        in_pieces(c.count, [&](int64_t at, int n) {
          check(MPI_Isend(byte(c.in, at * bytes), n, type, c.peer, 0, comm_, sent->add()), "send");
        });
        return sent;
      }
      case Kind::barrier: {
        auto all = std::make_unique<Requests>("barrier");
        check(MPI_Ibarrier(comm_, all->add()), "barrier");
        return all;
      }
      case Kind::split: break;
    }
    throw CommError("[mpi] not a collective");
  }

  std::unique_ptr<Group> split(int color, int key) override {
    MPI_Comm part;
    check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "split");
    if (part == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiGroup>(part);
  }

  std::vector<std::string> exchange(const std::string& text) override {
    int length = int(text.size()), longest = 0;
    check(MPI_Allreduce(&length, &longest, 1, MPI_INT, MPI_MAX, comm_), "exchange");
    std::vector<char> mine(size_t(longest) + 1), all(size_t(size_) * mine.size());
    std::copy(text.begin(), text.end(), mine.begin());
    check(MPI_Allgather(mine.data(), int(mine.size()), MPI_CHAR, all.data(), int(mine.size()), MPI_CHAR, comm_),
          "exchange");
    std::vector<std::string> texts;
    for (int r = 0; r < size_; ++r) texts.emplace_back(all.data() + size_t(r) * mine.size());
    return texts;
  }

 private:
  // A call with a priority gets one that none of those has that may be under way.
  int lane_of(const Call& c) { return c.priority ? 1 + int(by_priority_++ % most_together) : 0; }
  const std::shared_ptr<RingMemory>& free_memory() {
    for (const auto& m : rings_) {
      if (m.use_count() == 1) return m;
    }
    return rings_.emplace_back(std::make_shared<RingMemory>(shares_memory_));
  }
  static constexpr int64_t least_ring_bytes = 16 << 10;  // a rank
  static const void* byte(const void* p, int64_t at) { return static_cast<const char*>(p) + at; }
  static void* byte(void* p, int64_t at) { return static_cast<char*>(p) + at; }
  // At least once: an array without elements takes part as well.
  template <class F>
  static void in_pieces(int64_t count, F&& piece) {
    int64_t at = 0;
    do {
      const int64_t n = std::min(count - at, most_elements);
      piece(at, int(n));
      at += n;
    } while (at < count);
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  bool shares_memory_ = true;
  std::shared_ptr<ShortSteps> short_;               // of the last one that was begun as well
  std::vector<std::shared_ptr<RingMemory>> rings_;  // as many as were under way at a time
  uint64_t by_priority_ = 0;                        // calls
  std::vector<int64_t> parts_;  // by rank, of one call: kept, so that the next one allocates nothing
};

class MpiBackend final : public Backend {
 public:
  MpiBackend() {
    int begun = 0, provided = 0;
    MPI_Initialized(&begun);
    if (begun) {
      MPI_Query_thread(&provided);
    } else {
      // A look at a call that is under way must not give the core away: on Linux, the thread that computes there then
      // keeps it for milliseconds, in which links are idle. The communicator's thread rests between its looks instead.
      setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
      // Send in fragments only: OpenMPI's other way over TCP, writes into the receiver's memory, leaves half of a link
      // idle where both ranks send, as in every sum.
      setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
      // Between the ranks of one machine, what is longer waits until the other rank has asked for it: three messages
      // instead of one.
      setenv("OMPI_MCA_btl_vader_eager_limit", "20480", 0);
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "mpi");
      began_here_ = true;
    }
    if (provided < MPI_THREAD_MULTIPLE) {
      throw CommError("[mpi] this MPI does not allow several threads (MPI_THREAD_MULTIPLE)");
    }
  }
  std::unique_ptr<Group> world() override {
    MPI_Comm comm;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "mpi");
    return std::make_unique<MpiGroup>(comm);
  }
  void finalize() noexcept override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (began_here_ && !ended) MPI_Finalize();
  }

 private:
  bool began_here_ = false;
};

}  // namespace
}  // namespace kaon::comm

extern "C" [[gnu::visibility("default")]] kaon::comm::Backend* kaon_mpi_backend() {
  static auto* const backend = new kaon::comm::MpiBackend;
  return backend;
}
