// Checkpoints: all that training goes on from, in one file.
#pragma once

#include <coroutine>
#include <filesystem>
#include <memory>

#include "kaon/engine/api.h"
#include "kaon/engine/await.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace gluon {

// Writes the net's parameters, the trainer's states, the state of the random numbers and `more`, which names what the
// program goes on from beside them, as the epoch. One file of MXNet's format with a checksum of each array, put in the
// place of an old one when it is whole: a kill at any moment leaves one or the other. Training that goes on from it
// computes what training without a stop would have computed, bit for bit under
// {.exact = true} and as far as plans are the same. Blocks until the values are computed. Throws IoError, StateError
// for a parameter without values, ValueError for names that are there twice and for a trainer that changes a parameter
// which is neither the net's nor named in `more`, and the failure of a value.
//
// Of a trainer over ranks all ranks call it: rank 0 writes its arrays, with the optimizer's states of all ranks,
// what 2bit has not sent of each rank's gradients, and each rank's random numbers, and every call returns when the file
// is there. Where rank 0 could not write, the others throw IoError, and where a rank is gone in the meantime CommError:
// none waits for ever. Any number of ranks reads the file.
KAON_API void save_checkpoint(const std::filesystem::path& file, const Block& net, const Trainer& trainer,
                              const NamedArrays& more = {});

// A checkpoint that is being written. A handle: copies are the same one. Thread safety: any thread.
class CheckpointSave {
 public:
  CheckpointSave() = default;
  bool is_done() const;  // the file is on disk, or writing it has failed; never throws
  void wait() const;     // blocks until then; throws what save_checkpoint() would have thrown then
  // co_await save: the same without blocking.
  class Awaiter;
  Awaiter operator co_await() const;

 private:
  friend CheckpointSave save_checkpoint_async(const std::filesystem::path&, const Block&, const Trainer&,
                                              const NamedArrays&);
  struct State;
  explicit CheckpointSave(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // False: it is done.
  KAON_API bool resume_later(std::coroutine_handle<> caller, Executor& executor) const;
  std::shared_ptr<State> state_;
};

class CheckpointSave::Awaiter {
 public:
  explicit Awaiter(CheckpointSave save) : save_(std::move(save)) {}
  bool await_ready() const { return save_.is_done(); }
  template <engine::HasExecutor P>
  bool await_suspend(std::coroutine_handle<P> caller) {
    return save_.resume_later(caller, *caller.promise().executor());
  }
  void await_resume() const { save_.wait(); }

 private:
  CheckpointSave save_;
};
inline CheckpointSave::Awaiter CheckpointSave::operator co_await() const { return Awaiter(*this); }

// As save_checkpoint(), while training goes on: the file gets the values as they are between the steps pushed before
// the call and those pushed after it, all of one step. Each array is copied before the first operation that changes it,
// as the engine orders them; the call waits for nothing, and a later step for these copies alone, never for the disk.
// Until the file is written, the copies take as much memory as it. Checkpoints of one file are written in the order of
// the calls. A program that ends without wait() still writes them, and does not hear of a failure. Of a trainer over
// ranks all ranks call it, and those that do not write are done at once. Throws as save_checkpoint() does for what it
// checks at the call.
KAON_API CheckpointSave save_checkpoint_async(const std::filesystem::path& file, const Block& net,
                                              const Trainer& trainer, const NamedArrays& more = {});

// Reads such a file into a net and a trainer that are made alike, and returns `more`. Blocks. Throws as
// Block::load_parameters and Trainer::load_states do, ValueError for a file that is no checkpoint, and IoError for an
// array that differs from its checksum; then nothing is changed. Files without checksums, of earlier versions, are
// read. Each rank reads the file itself; where there are as many as wrote it, each goes on with its own random numbers,
// else all with rank 0's.
KAON_API NamedArrays load_checkpoint(const std::filesystem::path& file, Block& net, Trainer& trainer);

}  // namespace gluon
}  // namespace kaon
