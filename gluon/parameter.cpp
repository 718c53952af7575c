#include "kaon/gluon/parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/thread_context.h"
#include "kaon/gluon/internal/adopt_values.h"
#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/gluon/internal/parameter_values.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/random_state.h"

namespace kaon::gluon {

using namespace graph;

namespace {

// Integers have no gradient to attach, and none to drop.
void attach(NDArray& values, GradReq req, const ParameterOptions& options) {
  if (req == GradReq::null && !is_floating(values.dtype())) return;
  if (options.row_sparse_grad) {
    autograd::attach_row_sparse_grad(values, req);
  } else {
    values.attach_grad(req);
  }
}

void check_devices(const std::vector<Device>& devices, const char* caller) {
  if (devices.empty()) throw ValueError(fmt::format("[{}] there are no devices", caller));
  for (size_t i = 0; i < devices.size(); ++i) {
    check_device(devices[i], caller);
    if (std::find(devices.begin(), devices.begin() + ptrdiff_t(i), devices[i]) != devices.begin() + ptrdiff_t(i)) {
      throw ValueError(fmt::format("[{}] {} is named twice", caller, devices[i].str()));
    }
  }
}

}  // namespace

struct Parameter::Node {
  std::string name;
  Shape shape;  // 0: unknown, as is Shape::unknown()
  ParameterOptions options;
  NDArray data;                        // on the first device
  std::vector<NDArray> copies;         // on the others
  std::atomic<bool> deferred = false;  // lowered after `data` is there: looked at without a lock
  init::Initializer deferred_init;
  RandomKey deferred_key;  // drawn by initialize(): the values do not depend on when the shape is known
  std::vector<Device> deferred_devices;
  Symbol variable;               // made on first use; one per shape
  NDArray constant;              // the values of a constant, else undefined
  std::shared_ptr<Node> shared;  // the parameter that this one has become

  template <class Fn>
  void each(Fn&& fn) {
    if (data.defined()) fn(data);
    for (NDArray& copy : copies) fn(copy);
  }
  // Values that are on the first of these devices. `deferred` is lowered last: others look at it without a lock.
  void set(NDArray values, const std::vector<Device>& devices) {
    std::vector<NDArray> more;
    for (size_t i = 1; i < devices.size(); ++i) more.push_back(values.as_in_context(devices[i]));
    attach(values, options.grad_req, options);
    for (NDArray& copy : more) attach(copy, options.grad_req, options);
    copies = std::move(more);
    data = std::move(values);
    deferred = false;
  }
};

namespace {

bool is_complete(const Shape& shape) {
  if (!shape.is_known()) return false;
  return std::find(shape.begin(), shape.end(), 0) == shape.end();
}

// Whether `shape` completes `known`, in which 0 and Shape::unknown() are unknown.
bool fits(const Shape& known, const Shape& shape) {
  if (known.ndim() < 0) return true;
  bool same = known.ndim() == shape.ndim();
  for (int i = 0; same && i < shape.ndim(); ++i) same = known[i] == 0 || known[i] == shape[i];
  return same;
}

// `shape` with the dimensions that only `more` knows.
Shape merged(Shape shape, const Shape& more) {
  if (shape.ndim() < 0) return more;
  for (int i = 0; shape.ndim() == more.ndim() && i < shape.ndim(); ++i) {
    if (shape[i] == 0) shape[i] = more[i];
  }
  return shape;
}

[[noreturn]] void throw_misfit(const std::string& name, const Shape& known, const Shape& shape) {
  throw ShapeError(fmt::format("[Parameter] {} has shape {} (0 is unknown), got {}", name, known.str(), shape.str()));
}

thread_local ParameterTrace* t_trace = nullptr;

}  // namespace

Parameter::Parameter(std::string_view name, const Shape& shape, const ParameterOptions& options)
    : node_(std::make_shared<Node>()) {
  node_->name = name;
  node_->shape = shape;
  node_->options = options;
  if (!options.differentiable) node_->options.grad_req = GradReq::null;
}

Parameter::Parameter(std::string_view name, const NDArray& values)
    : Parameter(name, values.shape(), {.dtype = values.dtype(), .grad_req = GradReq::null}) {
  node_->constant = values.copy();
}

Parameter::Node* Parameter::found() const {
  Node* node = node_.get();
  while (node && node->shared) node = node->shared.get();
  return node;
}

Parameter::Node& Parameter::node() const {
  if (Node* node = found()) return *node;
  throw StateError("[Parameter] this handle holds no parameter");
}

void Parameter::check_share(const Parameter& other) const {
  const Node &own = node(), &theirs = other.node();
  if (own.options.dtype != theirs.options.dtype) {
    throw TypeError(fmt::format("[Parameter] {} of {} cannot become {} of {}", own.name, name_of(own.options.dtype),
                                theirs.name, name_of(theirs.options.dtype)));
  }
  if (!fits(own.shape, merged(theirs.shape, own.shape))) {
    throw ShapeError(fmt::format("[Parameter] {} of shape {} cannot become {} of shape {} (0 is unknown)", own.name,
                                 own.shape.str(), theirs.name, theirs.shape.str()));
  }
}

void Parameter::share(const Parameter& other) const {
  check_share(other);
  Node& own = node();
  if (&own == &other.node()) return;
  other.set_shape(merged(other.shape(), own.shape));
  other.finish_deferred();
  std::shared_ptr<Node> last = other.node_;
  while (last->shared) last = last->shared;
  own.shared = last;
  own.data = NDArray();
  own.copies.clear();
  own.deferred = false;
}

const std::string& Parameter::name() const { return node().name; }
const Shape& Parameter::shape() const { return node().shape; }
DType Parameter::dtype() const { return node().options.dtype; }
bool Parameter::is_initialized() const { return node().data.defined(); }
bool Parameter::is_deferred() const { return node().deferred; }
GradReq Parameter::grad_req() const { return node().options.grad_req; }
double Parameter::lr_mult() const { return node().options.lr_mult; }
double Parameter::wd_mult() const { return node().options.wd_mult; }
void Parameter::set_lr_mult(double m) const { node().options.lr_mult = m; }
void Parameter::set_wd_mult(double m) const { node().options.wd_mult = m; }
bool Parameter::is_auxiliary() const { return !node().options.differentiable; }

void Parameter::set_grad_req(GradReq req) const {
  Node& n = node();
  if (!n.options.differentiable || n.constant.defined()) req = GradReq::null;
  n.each([&](NDArray& values) { attach(values, req, n.options); });
  n.options.grad_req = req;
}

void Parameter::initialize(const init::Initializer& init, Device device, bool force_reinit) const {
  initialize(init, std::vector{device}, force_reinit);
}

void Parameter::initialize(const init::Initializer& init, const std::vector<Device>& devices, bool force_reinit) const {
  Node& n = node();
  check_devices(devices, "initialize");
  if (n.data.defined() && !force_reinit) return;
  n.deferred_init = n.options.init.is_set() ? n.options.init : init;
  n.deferred_devices = devices;
  n.deferred_key = random::draw(4);
  n.deferred = true;
  try {
    finish_deferred();
  } catch (...) {
    n.deferred = false;
    throw;
  }
}

void Parameter::finish_deferred() const {
  Node& n = node();
  if (!n.deferred || !is_complete(n.shape)) return;
  autograd::ModeScope mode(false, false);
  random::RandomSubstream stream(n.deferred_key);
  const Device device = n.deferred_devices.front();
  n.set(n.constant.defined() ? n.constant.as_in_context(device).astype(n.options.dtype)
                             : n.deferred_init(n.shape, n.options.dtype, device),
        n.deferred_devices);
}

const NDArray& Parameter::array() const {
  const Node& n = node();
  if (n.copies.empty() && n.data.defined()) return n.data;
  return array(current_device());
}

const NDArray& Parameter::array(Device device) const {
  Node& n = node();
  if (!n.data.defined()) {
    throw StateError(
        n.deferred ? fmt::format("[Parameter] {} has shape {}: the first forward completes it, where the operator that "
                                 "reads it tells the rest (as FullyConnected and Convolution do); run the net once, "
                                 "or give the whole shape (in_units, in_channels)",
                                 n.name, n.shape.str())
                   : fmt::format("[Parameter] {} is not initialized: call net.initialize() first", n.name));
  }
  if (n.data.device() == device) return n.data;
  for (const NDArray& copy : n.copies) {
    if (copy.device() == device) return copy;
  }
  std::string devices = n.data.device().str();
  for (const NDArray& copy : n.copies) devices += ", " + copy.device().str();
  throw DeviceError(fmt::format("[Parameter] {} has no values on {}, but on {}", n.name, device.str(), devices));
}

std::vector<Device> Parameter::list_ctx() const {
  const Node& n = node();
  if (!n.data.defined()) return n.deferred ? n.deferred_devices : std::vector<Device>();
  std::vector<Device> devices{n.data.device()};
  for (const NDArray& copy : n.copies) devices.push_back(copy.device());
  return devices;
}

std::vector<NDArray> Parameter::list_data() const {
  const detail::ParameterValues values(*this);
  std::vector<NDArray> all;
  for (size_t i = 0; i < values.size(); ++i) all.push_back(values[i]);
  return all;
}

NDArray Parameter::reduced() const {
  const std::vector<NDArray> all = list_data();
  if (all.size() == 1 || !is_floating(all[0].dtype())) return all[0];
  autograd::ModeScope mode(false, false);
  NDArray sum = all[0].copy();
  for (size_t i = 1; i < all.size(); ++i) sum += all[i].as_in_context(all[0].device());
  return sum / double(all.size());
}

namespace {

NDArray gradient_of(const Parameter& p, const NDArray& values) {
  if (p.has_row_sparse_grad()) {
    throw StateError(fmt::format("[Parameter] the gradient of {} is row_sparse: call row_sparse_grad()", p.name()));
  }
  NDArray g = values.grad();
  if (!g.defined()) throw StateError(fmt::format("[Parameter] {} has no gradient: its grad_req is null", p.name()));
  return g;
}

}  // namespace

NDArray Parameter::grad() const { return gradient_of(*this, array()); }
NDArray Parameter::grad(Device device) const { return gradient_of(*this, array(device)); }

std::vector<NDArray> Parameter::list_grad() const {
  const detail::ParameterValues values(*this);
  std::vector<NDArray> all;
  for (size_t i = 0; i < values.size(); ++i) all.push_back(values.grad(i));
  return all;
}

detail::ParameterValues::ParameterValues(const Parameter& parameter) : parameter_(parameter) {
  const Parameter::Node& n = parameter.node();
  if (!n.data.defined()) parameter.array(Device());  // throws
  first_ = &n.data;
  others_ = n.copies;
}

NDArray detail::ParameterValues::grad(size_t i) const { return gradient_of(parameter_, (*this)[i]); }

bool Parameter::has_row_sparse_grad() const { return node().options.row_sparse_grad; }
sparse::RowSparseNDArray Parameter::row_sparse_grad() const { return autograd::row_sparse_grad(data()); }

void Parameter::zero_grad() const {
  Node& n = node();
  n.each([&](NDArray& values) {
    if (n.options.row_sparse_grad) return attach(values, n.options.grad_req, n.options);
    if (NDArray g = values.grad(); g.defined()) {
      autograd::ModeScope mode(false, false);
      g.assign(0);
    }
  });
}

void Parameter::check_data(const NDArray& values) const {
  const Node& n = node();
  if (!fits(n.shape, values.shape())) throw_misfit(n.name, n.shape, values.shape());
  if (values.dtype() != n.options.dtype) {
    throw TypeError(fmt::format("[Parameter] {} has dtype {}, got values of {}; use cast", n.name,
                                name_of(n.options.dtype), name_of(values.dtype())));
  }
}

void Parameter::set_data(const NDArray& values) const {
  Node& n = node();
  check_data(values);
  set_shape(values.shape());
  autograd::ModeScope mode(false, false);
  if (n.data.defined()) {
    n.each([&](NDArray& own) { own.assign(values); });
    return;
  }
  const std::vector<Device> devices = n.deferred ? n.deferred_devices : std::vector{values.device()};
  const bool adopts = detail::AdoptValues::is_active();
  const bool is_there = values.device() == devices[0];
  n.set(!is_there ? values.as_in_context(devices[0]) : adopts ? values.detach() : values.copy(), devices);
}

void Parameter::reset_ctx(Device device) const { reset_ctx(std::vector{device}); }

void Parameter::reset_ctx(const std::vector<Device>& devices) const {
  Node& n = node();
  check_devices(devices, "reset_ctx");
  n.deferred_devices = devices;
  if (!n.data.defined() || list_ctx() == devices) return;
  autograd::ModeScope mode(false, false);
  n.set(reduced().as_in_context(devices[0]), devices);
}

void Parameter::check_cast(DType dtype) const {
  const Node& n = node();
  if (is_floating(dtype) || n.options.grad_req == GradReq::null) return;
  throw TypeError(
      fmt::format("[cast] {} has a gradient, which needs a floating dtype, got {}", n.name, name_of(dtype)));
}

void Parameter::cast(DType dtype) const {
  Node& n = node();
  if (n.options.dtype == dtype) return;
  check_cast(dtype);
  n.options.dtype = dtype;
  n.variable = Symbol();
  autograd::ModeScope mode(false, false);
  n.each([&](NDArray& values) {
    values = values.astype(dtype);
    attach(values, n.options.grad_req, n.options);
  });
}

Symbol Parameter::var() const {
  Node& n = node();
  if (!n.variable.defined()) {
    Shape s = n.shape;
    for (int i = 0; i < s.ndim(); ++i) {
      if (s[i] == 0) s[i] = -1;
    }
    n.variable = Symbol::variable(n.name, s, n.options.dtype);
    // as MXNet's files say it, where 0 is an unknown dimension
    auto& text = n.variable.entry().node->text_attrs;
    if (n.shape.ndim() > 0) text["__shape__"] = to_text(n.shape);
    text["__dtype__"] = std::to_string(int(n.options.dtype));
    if (std::string init = n.options.init.str(); !init.empty()) text["__init__"] = init;
  }
  ParameterTrace::note(*this);
  return n.variable;
}

void Parameter::set_name(std::string name) const {
  if (node_ && node_->shared) return;  // it is called as the other one is
  node().name = std::move(name);
  forget_variable();
}

void Parameter::forget_variable() const { node().variable = Symbol(); }

void Parameter::set_shape(const Shape& inferred) const {
  Node& n = node();
  if (!fits(n.shape, inferred)) throw_misfit(n.name, n.shape, inferred);
  if (n.shape == inferred) return;  // other threads may read it
  n.variable = Symbol();
  n.shape = inferred;
}

ParameterTrace::ParameterTrace() : outer_(std::exchange(t_trace, this)) {}
ParameterTrace::~ParameterTrace() { t_trace = outer_; }
void ParameterTrace::note(const Parameter& p) {
  if (t_trace && std::find(t_trace->used.begin(), t_trace->used.end(), p) == t_trace->used.end())
    t_trace->used.push_back(p);
}

void ParameterDict::add(const Parameter& p) {
  if (std::find(items_.begin(), items_.end(), p) == items_.end()) items_.push_back(p);
}

void ParameterDict::update(const ParameterDict& other) {
  for (const Parameter& p : other) add(p);
}

bool ParameterDict::contains(std::string_view name) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Parameter& p) { return p.name() == name; });
}

Parameter ParameterDict::get(std::string_view name) const {
  std::string names;
  for (const Parameter& p : items_) {
    if (p.name() == name) return p;
    names += (names.empty() ? "" : ", ") + p.name();
  }
  throw ValueError(fmt::format("[ParameterDict] there is no parameter '{}'; there are: {}", name, names));
}

void ParameterDict::initialize(const init::Initializer& init, Device device, bool force_reinit) const {
  for (const Parameter& p : items_) p.initialize(init, device, force_reinit);
}
void ParameterDict::initialize(const init::Initializer& init, const std::vector<Device>& devices,
                               bool force_reinit) const {
  for (const Parameter& p : items_) p.initialize(init, devices, force_reinit);
}
void ParameterDict::reset_ctx(Device device) const { reset_ctx(std::vector{device}); }
void ParameterDict::reset_ctx(const std::vector<Device>& devices) const {
  for (const Parameter& p : items_) p.reset_ctx(devices);
}
void ParameterDict::zero_grad() const {
  for (const Parameter& p : items_) p.zero_grad();
}
void ParameterDict::set_grad_req(GradReq req) const {
  for (const Parameter& p : items_) p.set_grad_req(req);
}
void ParameterDict::set_lr_mult(double m) const {
  for (const Parameter& p : items_) p.set_lr_mult(m);
}
void ParameterDict::set_wd_mult(double m) const {
  for (const Parameter& p : items_) p.set_wd_mult(m);
}

void ParameterDict::save(const std::filesystem::path& file, std::string_view strip_prefix) const {
  detail::NamedParameters named;
  for (const Parameter& p : items_) {
    std::string_view name = p.name();
    if (name.starts_with(strip_prefix)) name.remove_prefix(strip_prefix.size());
    named.emplace_back(name, p);
  }
  detail::save_values(named, file, "save");
}

void ParameterDict::load(const std::filesystem::path& file, bool allow_missing, bool ignore_extra,
                         std::string_view restore_prefix) const {
  load(file, {.allow_missing = allow_missing, .ignore_extra = ignore_extra}, restore_prefix);
}

void ParameterDict::load(const std::filesystem::path& file, const LoadOptions& options,
                         std::string_view restore_prefix) const {
  NamedArrays arrays = detail::load_arrays(file);
  for (auto& [name, array] : arrays) {
    if (name.starts_with("arg:") || name.starts_with("aux:")) name.erase(0, 4);
    name.insert(0, restore_prefix);
  }
  detail::NamedParameters named;
  for (const Parameter& p : items_) named.emplace_back(p.name(), p);
  detail::load_values(named, arrays, file, "load", options);
}

std::string ParameterDict::str() const {
  std::string text = "(\n";
  for (const Parameter& p : items_) {
    text += fmt::format("  Parameter {} (shape={}, dtype={})\n", p.name(), p.shape().str(), name_of(p.dtype()));
  }
  return text + ")";
}

}  // namespace kaon::gluon
