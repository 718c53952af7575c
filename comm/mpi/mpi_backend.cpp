// libkaon_mpi.so: collectives by MPI. A library of its own, so that a program without ranks does not depend on MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/check.h"
#include "kaon/comm/mpi/ring.h"
#include "kaon/comm/mpi/short_sums.h"
#include "kaon/comm/mpi/tags.h"
#include "kaon/comm/mpi/transport.h"
#include "kaon/engine/block_pool.h"
#include "kaon/ops/half.h"

namespace kaon::comm {
namespace {

constexpr int64_t most_elements = int64_t(1) << 30;

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

// MPI has no arithmetic on halves, and does not say which of a number and NaN is the larger one. Here NaN stays. The
// bits do not depend on which of the two comes first, which MPI leaves to each rank: two NaN give one that has the bits
// of both, and of zeros the negative one is the smaller one. Without branches, so that the loop is vectorised.
template <class T, Reduce op>
[[gnu::always_inline]] inline T combined(T a, T b) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  const Wide x = Wide(a), y = Wide(b);
  const Bits p = std::bit_cast<Bits>(a), q = std::bit_cast<Bits>(b), nan = p | q;
  if constexpr (op == Reduce::max) {
    const Bits larger = (x > y ? p : q) & (y > x ? q : p);  // of equal ones both
    return std::bit_cast<T>(std::isunordered(x, y) ? nan : larger);
  } else if constexpr (op == Reduce::min) {
    const Bits smaller = (x < y ? p : q) | (y < x ? q : p);
    return std::bit_cast<T>(std::isunordered(x, y) ? nan : smaller);
  } else {
    const T result = T(op == Reduce::sum ? x + y : x * y);
    return (x != x) & (y != y) ? std::bit_cast<T>(nan) : result;
  }
}
template <class T, Reduce op>
[[gnu::always_inline]] inline void reduce_numbers(void* in, void* in_out, int* count, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = combined<T, op>(a[i], b[i]);
}
#ifdef __x86_64__
template <class T, Reduce op>
[[gnu::target("avx2")]] void reduce_numbers_avx2(void* in, void* in_out, int* count, MPI_Datatype* type) {
  reduce_numbers<T, op>(in, in_out, count, type);
}
#endif
template <class T, Reduce op>
MPI_User_function* reduction() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return reduce_numbers_avx2<T, op>;
#endif
  return reduce_numbers<T, op>;
}

class Operations {
 public:
  MPI_Op get(Reduce op, DType dtype) const {
    const bool compares = op == Reduce::min || op == Reduce::max;
    if (dtype == DType::float16) return of_float16_.get(op);
    if (dtype == DType::bfloat16) return of_bfloat16_.get(op);
    if (dtype == DType::float32 && compares) return of_float32_.get(op);
    if (dtype == DType::float64 && compares) return of_float64_.get(op);
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
  template <class T>
  struct Own {
    Own() {
      make(sum, reduction<T, Reduce::sum>());
      make(min, reduction<T, Reduce::min>());
      make(max, reduction<T, Reduce::max>());
      make(prod, reduction<T, Reduce::prod>());
    }
    static void make(MPI_Op& op, MPI_User_function* function) { check(MPI_Op_create(function, 1, &op), "mpi"); }
    MPI_Op get(Reduce op) const {
      return op == Reduce::min ? min : op == Reduce::max ? max : op == Reduce::prod ? prod : sum;
    }
    MPI_Op sum, min, max, prod;
  };
  Own<float16> of_float16_;
  Own<bfloat16> of_bfloat16_;
  Own<float> of_float32_;
  Own<double> of_float64_;
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
  // The latest of them receives this number of elements, of a call like this one, from the call's peer.
  void expect(const Call& call, int count) {
    counts_.resize(requests_.size(), -1);
    counts_.back() = count;
    call_ = call;
  }
  bool has_ended() override {
    // OpenMPI 4 makes progress with its collectives at every eighth look only.
    constexpr int looks = 8;
    int done = 0;
    statuses_.resize(requests_.size());
    for (int i = 0; i < looks && !done; ++i) {
      const int code = MPI_Testall(int(requests_.size()), requests_.data(), &done, statuses_.data());
      if (code == MPI_SUCCESS) continue;
      for (size_t k = 0; k < statuses_.size(); ++k) {
        const int error = code == MPI_ERR_IN_STATUS ? statuses_[k].MPI_ERROR : MPI_ERR_PENDING;
        if (error == MPI_ERR_PENDING) continue;
        int kind = MPI_SUCCESS;
        MPI_Error_class(error, &kind);
        if (kind == MPI_ERR_TRUNCATE && k < counts_.size() && counts_[k] >= 0)
          fail_received(statuses_[k], counts_[k], "more");
        check(error, name_);
      }
      check(code, name_);
    }
    for (size_t i = 0; done && i < counts_.size(); ++i) {
      if (counts_[i] >= 0) check_received(statuses_[i], counts_[i]);
    }
    return done != 0;
  }

 private:
  // Whether it is what the other rank was to send.
  void check_received(const MPI_Status& status, int expected) const {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), name_);
    const int count = bytes / int(size_of(tags::has_room() ? tags::dtype_of(status.MPI_TAG) : call_.dtype));
    const Kind wanted = call_.kind == Kind::recv ? Kind::send : call_.kind;
    const bool fits =
        !tags::has_room() || (tags::kind_of(status.MPI_TAG) == wanted && tags::dtype_of(status.MPI_TAG) == call_.dtype);
    if (count != expected || !fits) {
      fail_received(status, expected, std::to_string(count));
    }
  }
  [[noreturn]] void fail_received(const MPI_Status& status, int expected, const std::string& got) const {
    std::string what = got;
    if (tags::has_room()) {
      what += fmt::format(" of {}, by its {}", name_of(tags::dtype_of(status.MPI_TAG)),
                          name_of(tags::kind_of(status.MPI_TAG)));
    }
    throw CommError(fmt::format("[{}] expected {} elements of {} from rank {}, got {}", name_, expected,
                                name_of(call_.dtype), call_.peer, what));
  }

  const char* const name_;
  engine::PooledVector<MPI_Request> requests_;
  engine::PooledVector<MPI_Status> statuses_;
  engine::PooledVector<int> counts_;  // -1: not one that receives
  Call call_;
};

// MPI counts in int: an array in pieces. At least one: an array without elements takes part as well.
template <class F>
void in_pieces(int64_t count, F&& piece) {
  int64_t at = 0;
  do {
    const int64_t n = std::min(count - at, most_elements);
    piece(at, int(n));
    at += n;
  } while (at < count);
}

// A collective of MPI's own, whose messages have no tags of ours, once the ranks have agreed on the call: MPI would add
// numbers of other dtypes up, and a rank that takes itself for the root would not wait for anything.
class Agreed final : public Pending, public engine::Pooled {
 public:
  Agreed(const Call& call, ShortSums& sums, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
      : call_(call), type_(type), op_(op), comm_(comm), all_(name_of(call.kind)) {
    const Call least{.kind = Kind::all_reduce,
                     .op = Reduce::min,
                     .dtype = DType::int64,
                     .count = int64_t(std::size(numbers_)),
                     .in = numbers_,
                     .out = numbers_};
    agreement_ = sums.begin(least, MPI_INT64_T, MPI_MIN, tags::own(call));
  }
  bool has_ended() override {
    if (agreement_) {
      if (!agreement_->has_ended()) return false;
      // Ranks that differ wait for the watch.
      if (numbers_[0] != -numbers_[1] || numbers_[2] != -numbers_[3]) return false;
      agreement_.reset();
      begin();
    }
    return all_.has_ended();
  }

 private:
  void begin() {
    auto* const out = static_cast<std::byte*>(call_.out);
    if (call_.kind == Kind::all_reduce) {
      const void* const in = call_.in == call_.out ? MPI_IN_PLACE : call_.in;
      return check(MPI_Iallreduce(in, out, int(call_.count), type_, op_, comm_, all_.add()), "all_reduce");
    }
    in_pieces(call_.count, [&](int64_t at, int n) {
      check(MPI_Ibcast(out + at * int64_t(size_of(call_.dtype)), n, type_, call_.peer, comm_, all_.add()), "broadcast");
    });
  }

  const Call call_;
  const MPI_Datatype type_;
  const MPI_Op op_;
  const MPI_Comm comm_;
  int64_t numbers_[4] = {call_.peer, -call_.peer, call_.count, -call_.count};  // the least of each, by all ranks
  std::unique_ptr<Pending> agreement_;
  Requests all_;
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
    shares_memory_ = local_size_ == size_ && uses_shared_memory();
    short_ = std::make_unique<ShortSums>(comm, rank_, size_, shares_memory_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  bool shares_memory() const override { return shares_memory_; }

  std::unique_ptr<Pending> begin(const Call& c) override {
    const MPI_Datatype type = type_of(c.dtype);
    const int64_t bytes = int64_t(size_of(c.dtype));
    const int tag = tags::own(c);
    switch (c.kind) {
      case Kind::all_reduce: {
        const MPI_Op op = operations().get(c.op, c.dtype);
        if (c.count * bytes <= short_->longest()) return short_->begin(c, type, op, tag);
        // Of many ranks: the way round all of them is long.
        if (c.count * bytes < least_ring_bytes * size_) {
          return std::make_unique<Agreed>(c, *short_, type, op, comm_);
        }
        return std::make_unique<Ring>(c, parts_, free_memory(), type, op, comm_, rank_, size_, tags::of(c), lane_of(c));
      }
      case Kind::reduce_scatter:
      case Kind::all_gather: {
        if (c.counts) {
          parts_.assign(c.counts->begin(), c.counts->end());
        } else {
          parts_.assign(size_t(size_), c.count);
        }
        const MPI_Op op = c.kind == Kind::reduce_scatter ? operations().get(c.op, c.dtype) : MPI_OP_NULL;
        return std::make_unique<Ring>(c, parts_, free_memory(), type, op, comm_, rank_, size_, tags::of(c), lane_of(c));
      }
      case Kind::broadcast: return std::make_unique<Agreed>(c, *short_, type, MPI_OP_NULL, comm_);
      case Kind::exchange: {
        auto both = std::make_unique<Requests>("exchange");
        in_pieces(c.count, [&](int64_t at, int n) {
          receive(*both, c, at, n);
          check(MPI_Isend(byte(c.in, at * bytes), n, type, c.peer, tag, comm_, both->add()), "exchange");
        });
        return both;
      }
      case Kind::recv: {
        auto got = std::make_unique<Requests>("recv");
        in_pieces(c.count, [&](int64_t at, int n) { receive(*got, c, at, n); });
        return got;
      }
      case Kind::send: {
        auto sent = std::make_unique<Requests>("send");
        in_pieces(c.count, [&](int64_t at, int n) {
          check(MPI_Isend(byte(c.in, at * bytes), n, type, c.peer, tag, comm_, sent->add()), "send");
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
  // What the peer sends next, whatever it is: Requests checks it.
  void receive(Requests& requests, const Call& c, int64_t at, int n) {
    check(MPI_Irecv(byte(c.out, at * int64_t(size_of(c.dtype))), n, type_of(c.dtype), c.peer, MPI_ANY_TAG, comm_,
                    requests.add()),
          name_of(c.kind));
    requests.expect(c, n);
  }
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
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  bool shares_memory_ = true;
  std::unique_ptr<ShortSums> short_;
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
      // Errors of several messages belong to none of our communicators: else MPICH ends the program at a message that
      // is longer than expected. (To MPI_COMM_WORLD up to MPI 3, then to MPI_COMM_SELF.)
      for (MPI_Comm c : {MPI_COMM_WORLD, MPI_COMM_SELF}) check(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN), "mpi");
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
