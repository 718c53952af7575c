// A kernel's arguments: raw tensors, the mode it runs in, and the engine's services.
// A light header: .cu files read it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/run_context.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/shape.h"

namespace KAON_API kaon {

namespace engine {
struct Buffer;
}

// Shape and dtype of one value. -1 dimensions and Shape::unknown() occur in inference only.
struct TensorMeta {
  Shape shape = Shape::unknown();
  DType dtype = DType::float32;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

namespace ops {
// The memory layout of a 4-D (batch, channel, height, width) value. `shape` is always logical (N, C, H, W); plans keep
// values of convolution chains in channels_last (N, H, W, C in memory), or in blocks of 16 channels
// (N, C / 16, H, W, 16), whose number 16 divides.
enum class Layout : uint8_t { row_major, channels_last, blocked16 };
// Counter-based random numbers: number i of a draw depends on (seed, offset, i) alone, so results do not
// depend on threads or scheduling. Given to an op when it is pushed; no two draws get the same offset.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// A kernel's state between calls: primitives, packed weights. One slot per plan node.
struct KernelState {
  virtual ~KernelState() = default;
  virtual std::string implementation() const { return {}; }  // for people: "brgconv:avx512_core nhwc"
  virtual int reorders() const { return 0; }                 // of images, in each call
};

// The Buffer of an input, at which data derived from it is kept (engine/buffer/packed_cache.h); null: it is not kept.
struct Source {
  engine::Buffer* buffer = nullptr;
  size_t offset = 0;  // in bytes
};

// The variants that a kernel can be told to run: each algorithm with each partition of the work, the one chosen by
// rules first. A variant that the machine does not support throws.
struct Variants {
  int algorithms = 0, partitions = 0;
  uint8_t number(int algorithm, int partition) const { return uint8_t(1 + algorithm * partitions + partition); }
  int algorithm(uint8_t number) const { return (number - 1) / partitions; }
  int partition(uint8_t number) const { return (number - 1) % partitions; }
};
}  // namespace ops

// A contiguous tensor. Does not own.
struct TensorView {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::float32;
  ops::Layout layout = ops::Layout::row_major;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t size() const { return shape.size(); }
  size_t bytes() const { return size_t(size()) * size_of(dtype); }
};

struct KernelContext {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;  // an output that is not wanted has data == nullptr
  RunContext& run;
  ops::RandomKey random{};
  bool training = false;
  bool exact = true;      // false: a plan that may choose faster kernels within the documented bounds
  bool winograd = false;  // ... and Winograd convolutions, whose error is larger
  uint8_t variant = 0;    // one of ops::Variants; 0: the kernel chooses by rules
  std::unique_ptr<ops::KernelState>* state = nullptr;  // the plan node's slot; nullptr when run imperatively
  const ops::Source* sources = nullptr;                // by input, in plans that predict

  const TensorView& in(int i) const { return inputs[size_t(i)]; }
  const TensorView& out(int i = 0) const { return outputs[size_t(i)]; }
  int num_inputs() const { return int(inputs.size()); }
  // The source of an address inside an input.
  ops::Source source_of(const void* data) const {
    for (size_t i = 0; sources && i < inputs.size(); ++i) {
      const char* begin = inputs[i].as<char>();
      if (data < begin || data >= begin + inputs[i].bytes()) continue;
      return {sources[i].buffer, sources[i].offset + size_t(static_cast<const char*>(data) - begin)};
    }
    return {};
  }
};

}  // namespace kaon
