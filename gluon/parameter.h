// Parameter: a named array that a block learns or keeps; ParameterDict: those of a net.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kaon/gluon/initializer.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"

namespace kaon::gluon {

struct ParameterOptions {
  DType dtype = DType::float32;
  init::Initializer init{};  // unset: the one given to initialize()
  GradReq grad_req = GradReq::write;
  double lr_mult = 1;
  double wd_mult = 1;
  bool differentiable = true;  // false: running statistics
};

// A handle: a copy is the same parameter. A 0 in the shape, or all of Shape::unknown(), is unknown until the first
// forward infers it.
// Thread safety: reading from any thread; initializing and setting on one.
class Parameter {
 public:
  Parameter() = default;
  Parameter(std::string_view name, const Shape& shape, const ParameterOptions& options = {});

  const std::string& name() const;  // path of blocks and own name, joined by "_"
  const Shape& shape() const;
  DType dtype() const;
  bool is_initialized() const;  // has values
  bool is_deferred() const;     // initialize() was called; waits for its shape
  GradReq grad_req() const;
  void set_grad_req(GradReq req);
  double lr_mult() const;
  double wd_mult() const;
  void set_lr_mult(double m);
  void set_wd_mult(double m);

  // Chooses values: by the `init` of the parameter's own options, else by this one; now, or when the shape is known. An
  // initialized parameter keeps its values unless force_reinit, and when this throws: ValueError for an initializer
  // that does not suit the shape.
  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(), bool force_reinit = false);
  NDArray data() const { return array(); }
  // Throws StateError when not initialized, naming it and what to call. Until it is given another one.
  const NDArray& array() const;
  NDArray grad() const;  // throws StateError when there is none
  void zero_grad();
  void set_data(const NDArray& values);          // checks shape and dtype; initializes
  void check_data(const NDArray& values) const;  // throws what set_data would throw
  void reset_ctx(Device device);       // moves values; the gradient becomes zero
  void cast(DType dtype);              // throws TypeError for a dtype that a parameter with a gradient cannot have
  void check_cast(DType dtype) const;  // throws what cast would throw
  Symbol var() const;                  // the variable that stands for it in symbols

  // F(parameter): the array, or the variable while tracing.
  template <class A>
  A as() const {
    if constexpr (std::is_same_v<A, NDArray>) {
      return data();
    } else {
      return var();
    }
  }

  // --- for blocks
  void set_name(std::string name);
  void set_shape(const Shape& inferred);  // completes 0 dimensions; throws ShapeError on contradiction
  void finish_deferred();                 // initializes when the shape is known now
  void forget_variable();                 // var() makes a new one
  bool is_auxiliary() const;              // not differentiable: an "aux:" array in files
  bool defined() const { return bool(node_); }
  friend bool operator==(const Parameter& a, const Parameter& b) { return a.node_ == b.node_; }

 private:
  struct Node;
  Node& node() const;
  std::shared_ptr<Node> node_;
};

// The parameters that a trace on this thread has used, in order of first use.
class ParameterTrace {
 public:
  ParameterTrace();
  ~ParameterTrace();
  ParameterTrace(const ParameterTrace&) = delete;
  ParameterTrace& operator=(const ParameterTrace&) = delete;
  static void note(const Parameter& p);
  std::vector<Parameter> used;

 private:
  ParameterTrace* outer_;
};

// Parameters in the order of their blocks. A list of handles. Those of several nets can be put together, for one
// Trainer; what goes by names (get, contains, files) needs names that differ.
class ParameterDict {
 public:
  void add(const Parameter& p);             // once each
  void update(const ParameterDict& other);  // adds all of them
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  Parameter operator[](size_t i) const { return items_[i]; }
  // A handle: Parameter p = net.collect_params().get("dense0_weight"). Throws ValueError listing the names.
  Parameter get(std::string_view name) const;
  bool contains(std::string_view name) const;

  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(),
                  bool force_reinit = false) const;
  void reset_ctx(Device device) const;  // moves all there: net.collect_params().reset_ctx(gpu(0))
  void zero_grad() const;
  void set_grad_req(GradReq req) const;
  void set_lr_mult(double m) const;
  void set_wd_mult(double m) const;  // net.collect_params(".*bias").set_wd_mult(0)
  // MXNet's list file with full names; strip_prefix is cut from each, restore_prefix put before each. Loading reads
  // export_model's files too, throws as Block::load_parameters does, and then changes nothing.
  void save(const std::filesystem::path& file, std::string_view strip_prefix = "") const;
  void load(const std::filesystem::path& file, bool allow_missing = false, bool ignore_extra = false,
            std::string_view restore_prefix = "") const;
  std::string str() const;

 private:
  std::vector<Parameter> items_;
};

}  // namespace kaon::gluon

template <>
struct fmt::formatter<kaon::gluon::ParameterDict> : fmt::formatter<std::string> {
  auto format(const kaon::gluon::ParameterDict& p, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(p.str(), context);
  }
};
