// The states of MXNet's Trainer, which Python wrote as a pickle.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/trainer.h"

namespace KAON_API kaon {
namespace gluon {

struct MxnetStatesOptions {
  // The parameters in the order in which MXNet's Trainer had them, by their names here. Empty: sorted by name, as it
  // sorts those of collect_params(), which is the same order where the two nets name their blocks alike.
  std::vector<std::string> order{};
};

// Reads what Trainer.save_states of MXNet 1.x wrote into a trainer with the same optimizer: momenta and means, numbers
// of updates, the learning rate where there is no scheduler. The pickle is read as data, no code runs. Blocks. Throws
// IoError for a file that is none, or names classes other than MXNet's arrays and optimizers, and as
// Trainer::load_states; then nothing is changed.
KAON_API void load_mxnet_states(Trainer& trainer, const std::filesystem::path& file,
                                const MxnetStatesOptions& options = {});
// The same as Trainer::set_states takes it.
KAON_API NamedArrays read_mxnet_states(const Trainer& trainer, std::string_view bytes,
                                       const std::string& source = "bytes", const MxnetStatesOptions& options = {});

}  // namespace gluon
}  // namespace kaon
