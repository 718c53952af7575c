// CustomProp: what a program says of one of its operators with given attributes, and CustomInstance, which computes.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kaon/mxnet/custom/callback_list.h"
#include "kaon/ops/custom/kernels/custom_family.h"
#include "kaon/ops/ndarray.h"

namespace kaon::mxnet {

// The arrays of a call. Those that are computed exist and are written to.
struct CustomArrays {
  std::span<const NDArray> inputs, outputs, states;
  std::span<const NDArray> heads{}, gradients{};  // of a backward
};

// Thread safety: any thread, as far as the program's functions are. They may push and wait.
class CustomInstance {
 public:
  CustomInstance(std::string name, const MXCallbackList& list) : name_(std::move(name)), callbacks_(list, 0) {}
  // Throw Error when the program's function fails, StateError after the program has ended.
  void forward(const CustomArrays& arrays, bool training) const;
  void backward(const CustomArrays& arrays, bool training) const;

 private:
  enum : size_t { remove, run_forward, run_backward };
  // Tags are MXNet's numbers of what an array is.
  struct Tagged {
    std::span<const NDArray> arrays;
    int tag;
  };
  void run(size_t function, std::initializer_list<Tagged> arrays, size_t written, bool training) const;

  std::string name_;
  CallbackList callbacks_;
};

// Thread safety: any thread, as far as the program's functions are; calls of its infer_shape take turns.
class CustomProp {
 public:
  // Throws Error when the program does not take the attributes.
  CustomProp(const std::string& op_type, CustomOpPropCreator creator, const CustomAttributes& attributes);

  const CustomSignature& signature() const { return signature_; }
  int num_inputs() const { return int(signature_.inputs.size()) - signature_.updated; }  // without states
  int num_outputs() const { return int(signature_.outputs.size()); }
  void infer(InferContext& c) const;
  // For a device and inputs of such shapes and dtypes.
  std::shared_ptr<const CustomInstance> instance(Device device, std::span<const TensorMeta> inputs) const;

 private:
  std::vector<std::string> list(size_t function, const char* what) const;
  [[noreturn]] void fail(const char* what) const;

  std::string op_type_;
  CallbackList callbacks_;
  CustomSignature signature_;
  mutable std::recursive_mutex infer_mutex_;  // recursive: the program's infer_shape may call the operator
};

// Makes the op_type known to Custom: its properties are what `creator` gives for sets of attributes.
void register_program_operator(const char* op_type, CustomOpPropCreator creator);

}  // namespace kaon::mxnet
