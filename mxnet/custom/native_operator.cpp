// _Native and _NDArray, the operators of a program before MXNet had CustomOp: NumpyOp computes in the memory of float32
// arrays, NDArrayOp on arrays. Each is a Custom of its own family, whose attribute `info` is the address of the
// program's functions.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/mxnet/attributes/other_texts.h"
#include "kaon/mxnet/custom/custom_prop.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::mxnet {

namespace {

// As the program has them: functions, then what each gets as its last argument.
struct NumpyFunctions {
  using Run = void (*)(int, float**, int*, unsigned**, int*, void*);
  using Infer = void (*)(int, int*, int**, void*);
  using List = void (*)(char***, void*);
  Run forward, backward;
  Infer infer_shape;
  List list_outputs, list_arguments;
  void *of_forward, *of_backward, *of_infer_shape, *of_list_outputs, *of_list_arguments;
};
struct ArrayFunctions {
  using Run = bool (*)(int, void**, int*, void*);
  using Infer = bool (*)(int, int*, int**, void*);
  using List = bool (*)(char***, void*);
  using Depend = bool (*)(int*, int*, int*, int*, int**, void*);
  Run forward, backward;
  Infer infer_shape;
  List list_outputs, list_arguments;
  Depend declare_backward_dependency;
  void *of_forward, *of_backward, *of_infer_shape, *of_list_outputs, *of_list_arguments, *of_dependency;
};

// What `call` gives, 1 where it gives nothing: the functions of NumpyOp cannot fail.
template <class Call>
int succeeds(Call&& call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    return call(), 1;
  } else {
    return int(call());
  }
}

// CustomProp's functions, by those of the program.
template <class Functions>
struct Adapter {
  static const Functions& of(void* context) { return *static_cast<const Functions*>(context); }

  static int arguments(char*** names, void* context) {
    return succeeds([&] { return of(context).list_arguments(names, of(context).of_list_arguments); });
  }
  static int outputs(char*** names, void* context) {
    return succeeds([&] { return of(context).list_outputs(names, of(context).of_list_outputs); });
  }
  static int no_states(char*** names, void*) {
    static char* none[] = {nullptr};
    *names = none;
    return 1;
  }
  static int infer_shape(int n, int* ndims, int** shapes, void* context) {
    return succeeds([&] { return of(context).infer_shape(n, ndims, shapes, of(context).of_infer_shape); });
  }
  static int infer_type(int n, int* types, void*) {
    for (int i = 0; i < n; ++i) types[i] = int(DType::float32);
    return 1;
  }
  static int create(const char*, int, unsigned**, const int*, const int*, MXCallbackList* list, void* context) {
    using Run = int(int, void**, int*, const int*, int, void*);
    static int (*callbacks[])(void) = {nullptr, as_callback<Run>(run<true>), as_callback<Run>(run<false>)};
    static thread_local void* contexts[3];
    contexts[1] = contexts[2] = context;
    *list = {3, callbacks, contexts};
    return 1;
  }

  template <bool forward>
  static int run(int n, void** handles, int* tags, const int*, int, void* context) {
    const auto function = forward ? of(context).forward : of(context).backward;
    void* const own = forward ? of(context).of_forward : of(context).of_backward;
    if constexpr (std::is_same_v<Functions, ArrayFunctions>) {
      return int(function(n, handles, tags, own));
    } else {
      std::vector<float*> data;
      std::vector<int> ndims;
      std::vector<std::vector<unsigned>> dims;
      std::vector<unsigned*> shapes;
      std::vector<std::unique_ptr<ArrayObject>> arrays;
      for (int i = 0; i < n; ++i) arrays.emplace_back(static_cast<ArrayObject*>(handles[i]));
      for (const auto& a : arrays) {
        if (a->array.device().type != DeviceType::cpu) throw DeviceError("[_Native] a NumpyOp needs arrays on the CPU");
        a->array.wait_to_read();
        data.push_back(static_cast<float*>(a->array.node().data()));
        ndims.push_back(a->array.ndim());
        dims.emplace_back(a->array.shape().begin(), a->array.shape().end());
      }
      for (auto& d : dims) shapes.push_back(d.data());
      function(n, data.data(), ndims.data(), shapes.data(), tags, own);
      return 1;
    }
  }

  template <class F>
  static auto as_callback(F* function) -> int (*)(void) {
    return reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(function));
  }
  static int make_prop(const char* op_type, int n, const char** keys, const char** values, MXCallbackList* list) {
    static int (*callbacks[])(void) = {
        nullptr, as_callback(arguments), as_callback(outputs),   as_callback(no_states), as_callback(infer_shape),
        nullptr, as_callback(create),    as_callback(infer_type)};
    constexpr size_t count = std::size(callbacks);
    static thread_local void* contexts[count];
    void* functions = nullptr;
    for (int i = 0; i < n; ++i) {
      if (std::string_view(keys[i]) == "info") functions = address_of(values[i]);
    }
    if (!functions) throw ValueError(fmt::format("[{}] info must name functions of this process", op_type));
    std::fill_n(contexts, count, functions);
    *list = {int(count), callbacks, contexts};
    return 1;
  }
};

[[maybe_unused]] const bool registered =
    (register_program_operator("_Native", Adapter<NumpyFunctions>::make_prop),
     register_program_operator("_NDArray", Adapter<ArrayFunctions>::make_prop), true);

}  // namespace

}  // namespace kaon::mxnet
