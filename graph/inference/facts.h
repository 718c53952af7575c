// Facts: what is known of the shapes or the dtypes of one node's inputs and outputs, which rules add to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::graph {

// Takes over what `more` knows. False: it contradicts `known`, which may have changed in part.
bool merge(Shape& known, const Shape& more);
bool merge(std::optional<DType>& known, const std::optional<DType>& more);

// The argument of a shape rule. Its members throw ShapeError, naming the operator and the array, where what is learnt
// contradicts what is known. Thread safety: one thread.
class ShapeFacts {
 public:
  ShapeFacts(const SymbolNode& node, std::vector<TensorMeta>& inputs, std::vector<Shape>& outputs)
      : node_(node), inputs_(inputs), outputs_(outputs) {}

  int num_inputs() const { return int(inputs_.size()); }
  int num_outputs() const { return int(outputs_.size()); }
  Shape& in(int i = 0) { return inputs_[size_t(i)].shape; }
  Shape& out(int i = 0) { return outputs_[size_t(i)]; }
  const SymbolNode& node() const { return node_; }

  // a is `size`, or has `size` as dimension d.
  void is(Shape& a, const Shape& size);
  void is(Shape& a, int d, int64_t size);
  void has_ndim(Shape& a, int ndim);  // -1: it is not known
  // a and b are equal, or dimension i of a and j of b are.
  void same(Shape& a, Shape& b);
  void same(Shape& a, int i, Shape& b, int j);
  // The first `inputs` inputs and the first `outputs` outputs (-1: all) have one shape.
  void all_same(int inputs = -1, int outputs = -1);
  // The product of a's dimensions in a_dims is factor times that of b's: the one that is not known follows.
  void same_product(Shape& a, const std::vector<int>& a_dims, Shape& b, const std::vector<int>& b_dims,
                    int64_t factor = 1);

  // What the operator's own infer says of inputs of these shapes: every input, then every output. nullopt: it throws.
  std::optional<std::vector<Shape>> evaluate(std::vector<Shape> inputs) const;
  // For operators each of whose dimensions either does not depend on an input's dimension or changes with it: what
  // does not change for other sizes in place of those that are not known. Nothing unless each input that has to be
  // given has a known number of dimensions.
  void probe();
  // For operators whose outputs have dimensions of their inputs and constant ones: each such pair is equal. Nothing
  // unless each input has a known number of dimensions.
  void copies_dimensions();

  [[noreturn]] void contradict(const Shape& a, const Shape& expected) const;
  [[noreturn]] void fail(const std::string& why) const;

 private:
  std::string name_of(const Shape& a) const;

  const SymbolNode& node_;
  std::vector<TensorMeta>& inputs_;
  std::vector<Shape>& outputs_;
};

// The argument of a dtype rule. Its members throw TypeError likewise.
class TypeFacts {
 public:
  using Type = std::optional<DType>;
  TypeFacts(const SymbolNode& node, std::vector<Type>& inputs, std::vector<Type>& outputs)
      : node_(node), inputs_(inputs), outputs_(outputs) {}

  int num_inputs() const { return int(inputs_.size()); }
  int num_outputs() const { return int(outputs_.size()); }
  Type& in(int i = 0) { return inputs_[size_t(i)]; }
  Type& out(int i = 0) { return outputs_[size_t(i)]; }
  const SymbolNode& node() const { return node_; }

  void is(Type& a, Type type);
  void same(Type& a, Type& b);
  // The inputs from `first` on, as many as `count` says (-1: all), and the outputs from the first on have one dtype.
  void all_same(int first = 0, int count = -1, int outputs = -1);
  // a may have any dtype, and has that of b where nothing else says more.
  void like(Type& a, const Type& b) {
    if (!a) a = b;
  }
  // The dtypes of the outputs, once every input is known, from the operator's infer on inputs of some shape.
  void by_infer();

 private:
  const SymbolNode& node_;
  std::vector<Type>& inputs_;
  std::vector<Type>& outputs_;
};

}  // namespace kaon::graph
