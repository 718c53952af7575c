// SymbolBlock: a block made from a symbol, for instance from a model file.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon {

// A block that runs a program of Symbols, always as one planned submission; with Symbols it composes. Its parameters
// have the names of the program's variables, in files too. A handle; thread safety as Block.
class SymbolBlock : public HybridBlock<SymbolBlock> {
 public:
  // Variables that are not inputs become parameters, those named as one of `params` that very one. Throws ValueError
  // for an input that the program lacks.
  SymbolBlock(const Symbol& outputs, const std::vector<std::string>& inputs, std::span<const Parameter> params = {});

  // Reads the files of export_model or MXNet. Without a parameter file initialize() sets the values, and with
  // allow_missing those of parameters that the file lacks. Dtypes are the file's. Blocks. Throws IoError for unreadable
  // files, ValueError or ShapeError for inputs or parameters that do not fit the program.
  static SymbolBlock imports(const std::filesystem::path& symbol_file, const std::vector<std::string>& inputs,
                             const std::filesystem::path& param_file = {}, Device device = Device(),
                             bool allow_missing = false, bool ignore_extra = false);

  // The program holds for inputs of these shapes and dtypes alone; -1: any size. Calls with others throw ShapeError and
  // TypeError. Throws ValueError for another number of inputs. Imported programs that were exported with fixed_shapes
  // expect theirs.
  void expect(const std::vector<TensorMeta>& inputs);

  // All outputs. Throws ValueError for another number of inputs than the block has, ShapeError and TypeError for inputs
  // that the program does not hold for.
  std::vector<NDArray> forward(const std::vector<NDArray>& inputs,
                               std::source_location site = std::source_location::current()) const;
  // The output of a block that has one. Throws ValueError for another number of outputs, and as forward() does.
  NDArray operator()(const NDArray& x, std::source_location site = std::source_location::current()) const;
  Symbol operator()(const Symbol& x) const { return compose_on({x}); }
  Symbol compose_on(const std::vector<Symbol>& inputs) const;  // all outputs
  // What containers and training steps call.
  template <class F, class A>
  std::vector<A> hybrid_forward(F, const std::vector<A>& inputs) const {
    return (*this)(inputs);
  }
  std::vector<NDArray> operator()(const std::vector<NDArray>& inputs,
                                  std::source_location site = std::source_location::current()) const {
    return forward(inputs, site);
  }
  std::vector<Symbol> operator()(const std::vector<Symbol>& inputs) const;
  const Symbol& program() const { return program_; }

 private:
  void check_count(size_t given) const;
  void check_input(size_t i, const Shape& shape, DType dtype) const;
  Symbol compose_all(std::span<const Symbol> inputs) const;  // labels_ may follow the inputs

  Symbol program_;
  std::vector<std::string> inputs_;
  std::vector<std::optional<TensorMeta>> expected_;  // by input
  std::vector<std::string> labels_;  // of output layers: a prediction does not read them, so they are zeros
};

}  // namespace gluon
}  // namespace kaon
