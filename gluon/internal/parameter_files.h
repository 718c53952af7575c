// Named parameters as array files, for save and load of Block and ParameterDict. For the sources of gluon/.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kaon/gluon/block.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::gluon::detail {

using NamedParameters = std::vector<std::pair<std::string, Parameter>>;

// Throws ValueError when two different parameters have one name. `caller` is for messages, here and below.
void check_unique(const NamedParameters& parameters, std::string_view caller);

// Blocks; throws StateError for a parameter without values.
void save_values(const NamedParameters& parameters, const std::filesystem::path& file, std::string_view caller);

// The arrays of a file of MXNet's. Throws IoError as nd_file::load does; of a file of another tool it says what the
// file is, and which function reads it.
NamedArrays load_arrays(const std::filesystem::path& file);

// By dotted path, each path once: the names in files of save_parameters().
NamedParameters structural_parameters(const Block& block);

// Values for parameters.
using ChosenValues = std::vector<std::pair<Parameter, NDArray>>;
// Those that `arrays`, read from `file`, have by the parameters' names. A parameter that is listed under several names
// may have any of them in the file. Throws ValueError, ShapeError or TypeError naming the file.
ChosenValues choose_values(const NamedParameters& parameters, const NamedArrays& arrays,
                           const std::filesystem::path& file, std::string_view caller, const LoadOptions& options);
// Sets them, which does not fail for values that were chosen.
void set_values(const ChosenValues& chosen);
// Both; changes nothing where it throws.
void load_values(const NamedParameters& parameters, const NamedArrays& arrays, const std::filesystem::path& file,
                 std::string_view caller, const LoadOptions& options);

}  // namespace kaon::gluon::detail
