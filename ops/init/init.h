// Arrays made of numbers.
#pragma once

#include <optional>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"
#include "kaon/ops/op.h"

namespace KAON_API kaon {

// --- Operators that create arrays from numbers: zeros, ones, full, arange, linspace, eye.

// Dtype and device of a new array: nd.zeros({2, 3}, {.device = gpu(0)}).
struct ArrayOptions {
  std::optional<DType> dtype{};    // not given: float32; nd.array says what it keeps
  std::optional<Device> device{};  // not given: the device of the running scope
};

namespace op {
// All elements 0.
struct Zeros {
  Shape shape{};
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_zeros", .inputs = {}};
  static constexpr void fields(auto field) {
    field("shape", &Zeros::shape);
    field("ctx", &Zeros::ctx);
    field("dtype", &Zeros::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// All elements 1.
struct Ones {
  Shape shape{};
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_ones", .inputs = {}};
  static constexpr void fields(auto field) {
    field("shape", &Ones::shape);
    field("ctx", &Ones::ctx);
    field("dtype", &Ones::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// All elements `value`. ValueError for a value that an integer dtype does not hold.
struct Full {
  Shape shape{};
  double value = 0;
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_full", .inputs = {}};
  static constexpr void fields(auto field) {
    field("shape", &Full::shape);
    field("value", &Full::value, true);
    field("ctx", &Full::ctx);
    field("dtype", &Full::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// start, start + step, ... below stop (above it when step is negative), each `repeat` times. Without stop: from 0
// to start. Element i is start + (i / repeat) step, computed in double. ValueError for a fractional start or step with
// an integer dtype, where MXNet and NumPy repeat one number.
struct Arange {
  double start = 0;
  std::optional<double> stop{};
  double step = 1;
  int repeat = 1;
  bool infer_range = false;  // not implemented: a range never takes its length from its consumer
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_arange", .inputs = {}};
  static constexpr void fields(auto field) {
    field("start", &Arange::start, true);
    field("stop", &Arange::stop);
    field("step", &Arange::step);
    field("repeat", &Arange::repeat);
    field("infer_range", &Arange::infer_range);
    field("ctx", &Arange::ctx);
    field("dtype", &Arange::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// `num` values evenly from start to stop; `endpoint` says whether stop is the last one.
struct Linspace {
  double start = 0;
  std::optional<double> stop{};
  int64_t num = 50;
  bool endpoint = true;
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_linspace", .inputs = {}};
  static constexpr void fields(auto field) {
    field("start", &Linspace::start, true);
    field("stop", &Linspace::stop, true);
    field("num", &Linspace::num, true);
    field("endpoint", &Linspace::endpoint);
    field("ctx", &Linspace::ctx);
    field("dtype", &Linspace::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// (N, M), M = N when 0: ones where column - row == k.
struct Eye {
  int64_t N = 0;
  int64_t M = 0;
  int64_t k = 0;
  DType dtype = DType::float32;
  std::optional<Device> ctx{};
  static constexpr OpTraits traits{.name = "_eye", .inputs = {}};
  static constexpr void fields(auto field) {
    field("N", &Eye::N, true);
    field("M", &Eye::M);
    field("k", &Eye::k);
    field("ctx", &Eye::ctx);
    field("dtype", &Eye::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
};

// start, start + step, ... in the dtype and number of data's elements, and in its shape; with `axis` along that axis
// alone, as a 1-D array. Each number comes `repeat` times. Only the shape of data is read.
struct ArangeLike {
  double start = 0;
  double step = 1;
  int repeat = 1;
  std::optional<int> axis{};
  std::optional<Device> ctx{};  // not read: the device is data's
  static constexpr OpTraits traits{.name = "_contrib_arange_like", .flat = true};
  static constexpr void fields(auto field) {
    field("start", &ArangeLike::start);
    field("step", &ArangeLike::step);
    field("repeat", &ArangeLike::repeat);
    field("axis", &ArangeLike::axis);
    field("ctx", &ArangeLike::ctx);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};

// The shape of data as an int64 array, and its number of elements as one of shape (1,).
struct ShapeArray {
  static constexpr OpTraits traits{.name = "shape_array", .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
struct SizeArray {
  static constexpr OpTraits traits{.name = "size_array", .flat = true};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void compose(ComposeContext& c) const;
};
}  // namespace op
void run_cpu(const op::Zeros& op, KernelContext& c);
void run_cuda(const op::Zeros& op, KernelContext& c);
void run_cpu(const op::Ones& op, KernelContext& c);
void run_cuda(const op::Ones& op, KernelContext& c);
void run_cpu(const op::Full& op, KernelContext& c);
void run_cuda(const op::Full& op, KernelContext& c);
void run_cpu(const op::Arange& op, KernelContext& c);
void run_cuda(const op::Arange& op, KernelContext& c);
void run_cpu(const op::Linspace& op, KernelContext& c);
void run_cuda(const op::Linspace& op, KernelContext& c);
void run_cpu(const op::Eye& op, KernelContext& c);
void run_cuda(const op::Eye& op, KernelContext& c);

}  // namespace kaon
