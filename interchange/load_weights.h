// Weights of other tools into nets: names, axes and gates are translated by rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace gluon {

// Replaces what the regular expression (ECMAScript) matches in a name; $1 is its first group.
struct Rename {
  std::string pattern, replacement;
};

// For tensors whose name, renamed, the regular expression matches as a whole: the axes in this order, as nd.transpose.
// {0, 2, 3, 1} makes PyTorch's (out, in, h, w) the (out, h, w, in) of a Conv2D of layout NHWC, {1, 0} turns a matrix of
// (in, out) into a Dense layer's (out, in).
struct AxesRule {
  std::string pattern;
  std::vector<int64_t> axes;
};

// For tensors whose name, renamed, the regular expression matches as a whole: axis 0 consists of one part for each
// gate, in the order of the letters of `from`, and comes into that of `to`. Kaon's LSTM has "ifgo" (input, forget,
// cell, output), its GRU "rzn" (reset, update, new), as PyTorch; ONNX has "iofg" and "zrn", Keras "ifgo" and "zrn".
struct GatesRule {
  std::string pattern, from, to;
};

// A parameter "w.transposed" holds the transpose of the matrix "w", as nets loaded from ONNX keep the weights of
// products: load_weights() turns a tensor "w" for it, where the net has no "w", and takes a "w.transposed" as it is.
inline constexpr std::string_view transposed_suffix = ".transposed";

enum class Naming : uint8_t {
  as_they_are,
  // Where the net has no parameter of a tensor's name: weight and bias are gamma and beta of a normalisation,
  // weight_ih_l0 and its like the parameters of recurrent layers and cells, the weight of a PReLU its alpha.
  // num_batches_tracked, which Kaon's layers do without, is passed over.
  pytorch,
};

struct WeightOptions {
  // These change names, in this order. A name without the prefix stays.
  std::string strip_prefix{};
  std::vector<Rename> rename{};
  std::string add_prefix{};
  Naming naming = Naming::as_they_are;
  // These change tensors, gates first.
  std::vector<GatesRule> gates{};
  std::vector<AxesRule> transpose{};
  bool allow_missing = false;  // parameters that have no tensor keep their values
  bool ignore_extra = false;   // tensors that are of no parameter
  // Tensors of another dtype are cast to the parameter's (current), or the parameter to theirs (saved), instead of
  // being refused.
  bool cast_dtype = false;
  DTypeSource dtype_source = DTypeSource::current;
};

// What a list of tensors means for a net.
struct WeightReport {
  struct Match {
    std::string parameter, tensor;  // the parameter by its dotted path, the tensor by its own name
    Shape shape;
    DType dtype;
    bool is_changed = false;  // axes, gates or dtype
  };
  struct Mismatch {
    std::string parameter, tensor, expected, found;  // shapes or dtypes
  };
  std::vector<Match> matched;
  std::vector<std::string> missing;  // parameters without a tensor
  std::vector<std::string> extra;    // tensors that are of no parameter
  std::vector<Mismatch> mismatched;
  // "142 of 144 parameters; missing: ...", a line for each kind; the first of long lists
  std::string str() const;
};

// Gives each parameter its tensor. Blocks as Block::load_parameters does, and like it changes nothing where it throws:
// ValueError, with the report, for missing or extra names unless the options allow them, ShapeError and TypeError for
// tensors that do not fit, ValueError for two tensors of one parameter and for rules that are no regular expressions or
// do not suit their tensors.
KAON_API WeightReport load_weights(const Block& net, const NamedArrays& tensors, const WeightOptions& options = {});
// The same of a file of any kind that load_tensors() reads. Parameters without values take over the memory of their
// tensors where these have some of their own: of a mapped file only what is not aligned is copied.
KAON_API WeightReport load_weights(const Block& net, const std::filesystem::path& file,
                                   const WeightOptions& options = {});
// The report alone: changes nothing. Throws ValueError for rules as above.
KAON_API WeightReport match_weights(const Block& net, const NamedArrays& tensors, const WeightOptions& options = {});

}  // namespace gluon
}  // namespace kaon
