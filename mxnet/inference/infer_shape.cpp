// Shapes that follow from those of some inputs of a symbol. An unknown dimension is 0, an unknown shape one without
// dimensions; both are -1 where NumPy's shapes are switched on.
#include <algorithm>
#include <limits>

#include "kaon/graph/inference/infer.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/inference/inferred.h"
#include "kaon/mxnet/symbol/symbol_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// Shapes that C gets as a list of lists: kept for the thread.
template <class Number>
class Lists {
 public:
  void set(const std::vector<Shape>& shapes) {
    const Number unknown = has_numpy_shape() ? -1 : 0;
    dims_.clear(), ndims_.clear(), pointers_.clear();
    for (const Shape& s : shapes) {
      std::vector<Number>& dims = dims_.emplace_back();
      for (const int64_t d : s) {
        if (d > std::numeric_limits<Number>::max())
          throw ValueError("[infer_shape] the shape " + s.str() + " is too large");
        dims.push_back(d < 0 ? unknown : Number(d));
      }
      ndims_.push_back(s.ndim() < 0 ? int(unknown) : s.ndim());
    }
    for (const std::vector<Number>& d : dims_) pointers_.push_back(d.data());
    pointers_.push_back(nullptr);  // so that an empty list has an address too
  }
  template <class Size>
  void give(Size* size, const int** ndims, const Number*** data) {
    *size = Size(ndims_.size());
    *ndims = ndims_.data();
    *data = pointers_.data();
  }

 private:
  std::vector<std::vector<Number>> dims_;
  std::vector<int> ndims_;
  std::vector<const Number*> pointers_;
};

template <class Number>
Shape shape_at(const Number* first, const Number* last) {
  const bool numpy = has_numpy_shape();
  if (first == last) return numpy ? Shape() : Shape::unknown();
  Shape s;
  for (; first != last; ++first) s.push_back(*first < 0 || (*first == 0 && !numpy) ? -1 : int64_t(*first));
  return s;
}

template <class Index, class Number>
Shapes known_shapes(const Symbol& symbol, uint32_t n, const char** keys, const Index* ends, const Number* data) {
  const std::vector<std::string> names = input_names(symbol, n, keys);
  Shapes known;
  for (uint32_t i = 0; i < n; ++i) {
    Shape s = shape_at(data + ends[i], data + ends[i + 1]);
    if (s.ndim() >= 0) known[names[i]] = s;
  }
  return known;
}

// complete: whether every shape is known.
template <class Index, class Number, class Size>
int infer(SymbolHandle sym, uint32_t n, const char** keys, const Index* ends, const Number* data, Size* in_size,
          const int** in_ndim, const Number*** in_data, Size* out_size, const int** out_ndim, const Number*** out_data,
          Size* aux_size, const int** aux_ndim, const Number*** aux_data, int* complete) {
  return guard([&] {
    const Symbol& symbol = symbol_of(sym).symbol;
    const Shapes known = known_shapes(symbol, n, keys, ends, data);
    const Inferred<Shape> found = with_operator_named([&](const graph::SymbolNode** failed) {
      return results<Shape>(
          symbol, graph::infer_shapes(symbol.entries(), known,
                                      {.closes = false, .zeros_are_open = !has_numpy_shape(), .failed = failed}));
    });
    static thread_local Lists<Number> arguments, outputs, auxiliary;
    arguments.set(found.arguments), outputs.set(found.outputs), auxiliary.set(found.auxiliary_states);
    arguments.give(in_size, in_ndim, in_data);
    outputs.give(out_size, out_ndim, out_data);
    auxiliary.give(aux_size, aux_ndim, aux_data);
    *complete = found.all([](const Shape& s) { return s.is_known(); });
  });
}

}  // namespace

int MXSymbolInferShapeEx(SymbolHandle sym, uint32_t num_args, const char** keys, const uint32_t* arg_ind_ptr,
                         const int* arg_shape_data, uint32_t* in_shape_size, const int** in_shape_ndim,
                         const int*** in_shape_data, uint32_t* out_shape_size, const int** out_shape_ndim,
                         const int*** out_shape_data, uint32_t* aux_shape_size, const int** aux_shape_ndim,
                         const int*** aux_shape_data, int* complete) {
  return infer(sym, num_args, keys, arg_ind_ptr, arg_shape_data, in_shape_size, in_shape_ndim, in_shape_data,
               out_shape_size, out_shape_ndim, out_shape_data, aux_shape_size, aux_shape_ndim, aux_shape_data,
               complete);
}

int MXSymbolInferShapePartialEx(SymbolHandle sym, uint32_t num_args, const char** keys, const uint32_t* arg_ind_ptr,
                                const int* arg_shape_data, uint32_t* in_shape_size, const int** in_shape_ndim,
                                const int*** in_shape_data, uint32_t* out_shape_size, const int** out_shape_ndim,
                                const int*** out_shape_data, uint32_t* aux_shape_size, const int** aux_shape_ndim,
                                const int*** aux_shape_data, int* complete) {
  const int rc = MXSymbolInferShapeEx(sym, num_args, keys, arg_ind_ptr, arg_shape_data, in_shape_size, in_shape_ndim,
                                      in_shape_data, out_shape_size, out_shape_ndim, out_shape_data, aux_shape_size,
                                      aux_shape_ndim, aux_shape_data, complete);
  *complete = 1;  // as far as it goes
  return rc;
}

int MXSymbolInferShapeEx64(SymbolHandle sym, uint32_t num_args, const char** keys, const int64_t* arg_ind_ptr,
                           const int64_t* arg_shape_data, size_t* in_shape_size, const int** in_shape_ndim,
                           const int64_t*** in_shape_data, size_t* out_shape_size, const int** out_shape_ndim,
                           const int64_t*** out_shape_data, size_t* aux_shape_size, const int** aux_shape_ndim,
                           const int64_t*** aux_shape_data, int* complete) {
  return infer(sym, num_args, keys, arg_ind_ptr, arg_shape_data, in_shape_size, in_shape_ndim, in_shape_data,
               out_shape_size, out_shape_ndim, out_shape_data, aux_shape_size, aux_shape_ndim, aux_shape_data,
               complete);
}

int MXSymbolInferShapePartialEx64(SymbolHandle sym, uint32_t num_args, const char** keys, const int64_t* arg_ind_ptr,
                                  const int64_t* arg_shape_data, size_t* in_shape_size, const int** in_shape_ndim,
                                  const int64_t*** in_shape_data, size_t* out_shape_size, const int** out_shape_ndim,
                                  const int64_t*** out_shape_data, size_t* aux_shape_size, const int** aux_shape_ndim,
                                  const int64_t*** aux_shape_data, int* complete) {
  const int rc = MXSymbolInferShapeEx64(sym, num_args, keys, arg_ind_ptr, arg_shape_data, in_shape_size, in_shape_ndim,
                                        in_shape_data, out_shape_size, out_shape_ndim, out_shape_data, aux_shape_size,
                                        aux_shape_ndim, aux_shape_data, complete);
  *complete = 1;
  return rc;
}
