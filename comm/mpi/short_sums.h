// ShortSums: how the ranks of a communicator add few numbers up.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/message_sum.h"
#include "kaon/comm/mpi/shared_sum.h"

namespace kaon::comm {

// Through memory where the ranks share it and there are few of them, since each reads what all have written; else by
// messages.
class ShortSums {
 public:
  // Every rank of the communicator calls it. Blocks.
  ShortSums(MPI_Comm comm, int rank, int size, bool shares_memory)
      : comm_(comm), rank_(rank), messages_(std::make_shared<MessageSteps>(rank, size)) {
    if (shares_memory && size > 1 && size <= most_that_read) {
      places_ = SharedPlaces::make(comm, rank, size, longest());
    }
  }

  int64_t longest() const { return messages_->longest; }  // bytes of an array that is short
  // One at a time.
  std::unique_ptr<Pending> begin(const Call& call, MPI_Datatype type, MPI_Op op, int tag) {
    if (places_) return std::make_unique<SharedSum>(call, *places_, type, op, comm_, tag);
    return std::make_unique<MessageSum>(call, messages_, type, op, comm_, rank_, tag);
  }

 private:
  static constexpr int most_that_read = 16;

  const MPI_Comm comm_;
  const int rank_;
  const std::shared_ptr<MessageSteps> messages_;
  std::unique_ptr<SharedPlaces> places_;
};

}  // namespace kaon::comm
