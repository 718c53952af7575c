// oneDNN's primitives called bare, each in its fastest memory format: what a net's time is compared with.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kaon::bench {

// A list of primitives with memory of their own, weights in the layout that the primitive likes best. Not connected:
// reorders between them are left out.
class BarePrimitives {
 public:
  using dims = dnnl::memory::dims;
  struct Convolution {
    int64_t batch, in, size, out, kernel, stride = 1, pad = 0;
  };

  explicit BarePrimitives(int threads) : threads_(threads) {}

  // Inference: relu as a post-op. The primitive runs `times` times. `winograd`: by that algorithm where it is faster.
  void convolution(const Convolution& c, bool relu, int times = 1, bool winograd = false);
  // So far several runs of a primitive read the same weights: let each have its own, as the layers of a net do.
  void give_each_its_weights();
  void max_pooling(int64_t batch, int64_t channels, int64_t size);
  void dense(int64_t batch, int64_t in, int64_t out, bool relu);

  // Training: forward and backward by weights, and by data when wanted.
  void train_convolution(const Convolution& c, bool backward_data);
  void train_relu_and_pooling(int64_t batch, int64_t channels, int64_t size);
  void train_dense(int64_t batch, int64_t in, int64_t out, bool relu, bool backward_data);

  double run() const;  // seconds of all, one after the other
  // Seconds of as many multiply-adds as the convolutions have, on registers alone: no direct kernel can be faster.
  double run_multiply_adds() const;
  void print_choices() const;  // a comment line for each

 private:
  using tag = dnnl::memory::format_tag;
  struct Item {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> args;
    std::string what;
    int times = 1;
  };
  using Make = std::function<Item(tag images, tag weights)>;
  using Candidate = std::pair<std::string, std::function<Item()>>;

  template <class Primitive, class Desc>
  Item item(const Primitive& primitive, const Desc& desc, const std::vector<std::pair<int, dnnl::memory::desc>>& args);
  void add_fastest(const std::string& what, const Make& make, int times = 1);
  void add_fastest_of(const std::string& what, const std::vector<Candidate>& candidates, int times);
  void add(const std::string& what, Item item, int times = 1);
  void add_relu(const dnnl::memory::desc& m);
  double seconds_of(const Item& item) const;

  int threads_;
  std::vector<Item> items_;
  double multiply_adds_ = 0;  // of the convolutions
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  mutable dnnl::stream stream_{engine_};
};

}  // namespace kaon::bench
