// Parameter: a named array that a block learns or keeps; ParameterDict: those of a net.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/initializer.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"

namespace KAON_API kaon {

namespace sparse {
class RowSparseNDArray;
}

namespace gluon {

struct ParameterOptions {
  DType dtype = DType::float32;
  init::Initializer init{};  // unset: the one given to initialize()
  GradReq grad_req = GradReq::write;
  double lr_mult = 1;            // factor of the learning rate
  double wd_mult = 1;            // factor of the weight decay
  bool differentiable = true;    // false: running statistics
  bool row_sparse_grad = false;  // the gradient is row_sparse (graph/sparse_gradient.h): MXNet's grad_stype
};

class Parameter;
namespace detail {
// Throws StateError when a block runs that does not contain the parameter.
KAON_API void check_contained(const Parameter& parameter);
class ParameterValues;
}  // namespace detail

// A handle: a copy is the same parameter. A 0 in the shape, or all of Shape::unknown(), is unknown until the first
// forward infers it. Nothing here blocks. Every member of a default-constructed handle but defined() throws StateError.
// Thread safety: reading from any thread; initializing and setting on one.
class Parameter {
 public:
  Parameter() = default;
  // Without values until initialize(), set_data() or a file gives them.
  Parameter(std::string_view name, const Shape& shape, const ParameterOptions& options = {});
  // A constant: initialize() gives it these values whatever the initializer is, and it has no gradient.
  Parameter(std::string_view name, const NDArray& values);

  const std::string& name() const;  // path of blocks and own name, joined by "_"
  const Shape& shape() const;       // 0: not known yet
  DType dtype() const;              // of the values, also before there are any
  bool is_initialized() const;      // has values
  bool is_deferred() const;         // initialize() was called; the values follow when the shape is known
  GradReq grad_req() const;         // how backward() writes the gradient; null: there is none
  // Attaches a gradient of zeros in place of the old one, or drops it (null). Running statistics and constants stay at
  // null. Throws TypeError for values of an integer dtype.
  void set_grad_req(GradReq req) const;
  double lr_mult() const;            // factor of the optimizer's learning rate
  double wd_mult() const;            // factor of the optimizer's weight decay
  void set_lr_mult(double m) const;  // from the next step on
  void set_wd_mult(double m) const;  // from the next step on

  // Sets values by the `init` of the parameter's own options, else by this one: now, or once the shape is known. An
  // initialized parameter keeps its values unless force_reinit, and when this throws. Throws ValueError for an
  // initializer that does not suit the shape, DeviceError when the device does not exist.
  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(),
                  bool force_reinit = false) const;
  // The same values on each of these devices. Throws ValueError too for no device and for one that is named twice.
  void initialize(const init::Initializer& init, const std::vector<Device>& devices, bool force_reinit = false) const;
  // The devices of the values, or where initialize() will make them; empty before.
  std::vector<Device> list_ctx() const;
  NDArray data() const { return array(); }  // a handle on the values; throws as array() does
  // The values: of several devices those of current_device(). Throws StateError, saying what to call, when there are
  // none, DeviceError when none are there. The reference holds until the parameter gets another array: initialize,
  // cast, reset_ctx.
  const NDArray& array() const;
  const NDArray& array(Device device) const;  // on this device; throws as array() does
  NDArray data(Device device) const { return array(device); }
  std::vector<NDArray> list_data() const;  // on each device; throws as array() does
  NDArray grad() const;                    // of data(); throws StateError when there is no dense gradient
  NDArray grad(Device device) const;       // of data(device)
  std::vector<NDArray> list_grad() const;  // of list_data()
  bool has_row_sparse_grad() const;        // whether the gradient is row_sparse
  // That gradient, as autograd::row_sparse_grad() gives and throws. Blocks as that does.
  sparse::RowSparseNDArray row_sparse_grad() const;
  void zero_grad() const;  // writes zeros; nothing without a gradient
  // Copies values into the parameter, on its devices; makes it initialized and completes its shape. Throws
  // ShapeError and TypeError for values that do not fit.
  void set_data(const NDArray& values) const;
  void check_data(const NDArray& values) const;  // throws what set_data would throw
  void reset_ctx(Device device) const;           // moves the values; the gradient becomes zero. Throws DeviceError
  // To several devices. From several, the mean over them, which differs for running statistics. Throws as initialize()
  // does.
  void reset_ctx(const std::vector<Device>& devices) const;
  void cast(DType dtype) const;  // converts the values; the gradient becomes zero. TypeError: integers with a gradient
  void check_cast(DType dtype) const;  // throws what cast would throw
  Symbol var() const;                  // the variable of this name in traces and files

  // F(parameter): the array, or the variable while tracing. Throws StateError in a block that does not contain it.
  template <class A>
  A as() const {
    detail::check_contained(*this);
    if constexpr (std::is_same_v<A, NDArray>) {
      return data();
    } else {
      return var();
    }
  }

  // --- for blocks
  void set_name(std::string name) const;        // the full name; the next var() has it
  void set_shape(const Shape& inferred) const;  // completes unknown dimensions; throws ShapeError where others differ
  void finish_deferred() const;                 // sets the deferred values if the shape is known by now
  void forget_variable() const;                 // the next var() makes a new variable
  // This handle and its copies become handles of `other`. Throws ShapeError and TypeError where the two differ.
  void share(const Parameter& other) const;
  void check_share(const Parameter& other) const;  // throws what share would throw
  NDArray reduced() const;                         // the mean over the devices, which files get
  bool is_auxiliary() const;                       // not differentiable: an "aux:" array in files
  bool defined() const { return bool(node_); }     // whether the handle holds a parameter
  friend bool operator==(const Parameter& a, const Parameter& b) { return a.found() == b.found(); }

 private:
  friend class detail::ParameterValues;
  struct Node;
  Node& node() const;
  Node* found() const;  // null: none
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

// Which dtype counts where a file has another one than the parameter.
enum class DTypeSource : uint8_t { current, saved };

struct LoadOptions {
  bool allow_missing = false;  // parameters that the file lacks keep their values
  bool ignore_extra = false;   // of the file
  // Arrays of another dtype are cast to the parameter's (current), or the parameter to theirs (saved), instead of being
  // refused.
  bool cast_dtype = false;
  DTypeSource dtype_source = DTypeSource::current;
};

// Parameters in the order of their blocks: a list of handles. It can hold those of several nets, for one Trainer; get,
// contains and files need names that differ. Only save and load block. Thread safety: like std::vector, and its
// parameters' own.
class ParameterDict {
 public:
  void add(const Parameter& p);                               // unless it is there already
  void update(const ParameterDict& other);                    // adds all of them
  auto begin() const { return items_.begin(); }               // of the handles
  auto end() const { return items_.end(); }                   // of the handles
  size_t size() const { return items_.size(); }               // the number of parameters
  Parameter operator[](size_t i) const { return items_[i]; }  // unchecked, as in std::vector
  // By full name: net.collect_params().get("dense0_weight"). Throws ValueError, listing the names, when there is none.
  Parameter get(std::string_view name) const;
  bool contains(std::string_view name) const;  // whether there is a parameter of this full name

  // --- each does for all parameters what Parameter's member of this name does, and throws as that does
  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(),
                  bool force_reinit = false) const;  // `init` where a parameter has none of its own
  void initialize(const init::Initializer& init, const std::vector<Device>& devices, bool force_reinit = false) const;
  void reset_ctx(Device device) const;  // net.collect_params().reset_ctx(gpu(0))
  void reset_ctx(const std::vector<Device>& devices) const;
  void zero_grad() const;                // where there is a gradient
  void set_grad_req(GradReq req) const;  // GradReq::null freezes a part of a net
  void set_lr_mult(double m) const;      // of each, whatever it was
  void set_wd_mult(double m) const;      // net.collect_params(".*bias").set_wd_mult(0)

  // --- files, which block: MXNet's lists with full names

  // Removes strip_prefix from each name. Throws as Block::save_parameters does, and ValueError when two parameters have
  // one name.
  void save(const std::filesystem::path& file, std::string_view strip_prefix = "") const;
  // Puts restore_prefix before each name. Reads export_model's files too. Throws as Block::load_parameters does, and
  // ValueError when two parameters have one name; then nothing is changed.
  void load(const std::filesystem::path& file, bool allow_missing = false, bool ignore_extra = false,
            std::string_view restore_prefix = "") const;
  void load(const std::filesystem::path& file, const LoadOptions& options, std::string_view restore_prefix = "") const;
  std::string str() const;  // a line for each: name, shape, dtype

 private:
  std::vector<Parameter> items_;
};

}  // namespace gluon
}  // namespace kaon

template <>
struct fmt::formatter<kaon::gluon::ParameterDict> : fmt::formatter<std::string> {
  auto format(const kaon::gluon::ParameterDict& p, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(p.str(), context);
  }
};
