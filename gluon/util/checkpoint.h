// Checkpoints: all that training goes on from, in one file.
#pragma once

#include <filesystem>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/trainer.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace gluon {

// Writes the net's parameters, the trainer's states, the state of the random numbers and `more`, which names what the
// program goes on from beside them, as the epoch. One file of MXNet's format, put in the place of an old one when it is
// whole. Training that goes on from it computes what training without a stop would have computed, bit for bit under
// {.exact = true} and as far as plans are the same. Blocks until the values are computed. Throws IoError, StateError
// for a parameter without values, ValueError for names that are there twice and for a trainer that changes a parameter
// which is neither the net's nor named in `more`, and the failure of a value.
void save_checkpoint(const std::filesystem::path& file, const Block& net, const Trainer& trainer,
                     const NamedArrays& more = {});

// Reads such a file into a net and a trainer that are made alike, and returns `more`. Blocks. Throws as
// Block::load_parameters and Trainer::load_states do, and ValueError for a file that is no checkpoint; then nothing is
// changed.
NamedArrays load_checkpoint(const std::filesystem::path& file, Block& net, Trainer& trainer);

}  // namespace gluon
}  // namespace kaon
