// What holds for every operator, generated from the test table: in a block as without one, in both modes.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "kaon/engine/device/backend.h"
#include "kaon/gluon/block.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/row_run.h"
#include "kaon/tests/support/skip.h"

namespace every_operator_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

using NameSet = std::set<std::string>;

constexpr DType dtypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                            DType::int8,    DType::int32,   DType::int64,   DType::boolean};

// The operator of a row as a user's block. A block is called with up to four arrays: the first ones; the others are
// parameters, or constants where a dimension of 0 would mean an unknown one.
struct OperatorBlock : gluon::HybridBlock<OperatorBlock> {
  static constexpr size_t most = 4;
  const Row* row;
  std::vector<gluon::Parameter> parameters;
  std::vector<NDArray> others;
  std::shared_ptr<std::vector<TensorMeta>> traced = std::make_shared<std::vector<TensorMeta>>();

  OperatorBlock(const Row& r, const std::vector<NDArray>& arrays) : row(&r) {
    for (size_t i = most; i < arrays.size(); ++i) {
      others.push_back(arrays[i]);
      gluon::Parameter p = param(fmt::format("input{}", i), arrays[i].shape(),
                                 {.dtype = arrays[i].dtype(), .grad_req = GradReq::null, .differentiable = false});
      if (arrays[i].size() != 0) p.set_data(arrays[i]);
      parameters.push_back(p);
    }
  }

  auto hybrid_forward(auto F, const auto& first, const auto&... rest) {
    using A = std::remove_cvref_t<decltype(first)>;
    std::vector<A> inputs{first, rest...};
    inputs.resize(std::min(inputs.size(), row->inputs.size()));  // one that creates takes none
    for (size_t i = 0; i < others.size(); ++i) {
      inputs.push_back(others[i].size() != 0 ? F(parameters[i]) : A::from_values(others[i], ""));
    }
    std::vector<const A*> pointers;
    for (const A& a : inputs) pointers.push_back(&a);
    std::vector<A> outputs{size_t(row->def->visible_outputs(row->attrs.get()))};
    A::apply(*row->def, row->attrs.get(), pointers, outputs, std::source_location::current(), "");
    if constexpr (std::is_same_v<A, Symbol>) {
      for (const A& a : outputs) traced->push_back({a.shape(), a.dtype()});
    }
    return outputs;
  }

  std::vector<NDArray> run(const std::vector<NDArray>& x) const {
    switch (std::min(x.size(), most)) {
      case 0: return (*this)(nd.zeros({1}));
      case 1: return (*this)(x[0]);
      case 2: return (*this)(x[0], x[1]);
      case 3: return (*this)(x[0], x[1], x[2]);
      default: return (*this)(x[0], x[1], x[2], x[3]);
    }
  }
};

enum class Mode { imperative, exact, planned };

struct Result {
  Hosts hosts;  // outputs, then inputs that were updated
  std::vector<TensorMeta> traced;
};

Result run_block(const Row& row, const Hosts& inputs, Mode mode) {
  const std::vector<NDArray> arrays = make_arrays(inputs);
  const OperatorBlock block(row, arrays);
  if (mode != Mode::imperative) OperatorBlock(block).hybridize({.exact = mode == Mode::exact});
  Result result;
  result.hosts = read_all(in_mode(row, false, arrays, [&](const auto& a) { return block.run(a); }));
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (is_mutated(row.def->traits, int(i), int(arrays.size()))) result.hosts.push_back(read(arrays[i]));
  }
  result.traced = *block.traced;
  return result;
}

// The kind of error and its text, "" when nothing is thrown.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const TypeError& e) {
    return std::string("TypeError: ") + e.what();
  } catch (const ShapeError& e) {
    return std::string("ShapeError: ") + e.what();
  } catch (const IndexError& e) {
    return std::string("IndexError: ") + e.what();
  } catch (const ValueError& e) {
    return std::string("ValueError: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  }
  return "";
}
std::string kind(const std::string& error) { return error.substr(0, error.find(':')); }

std::string compare_modes(const Row& row, const Hosts& inputs, DType t) {
  const Result want = run_block(row, inputs, Mode::imperative);
  for (Mode mode : {Mode::exact, Mode::planned}) {
    const Result got = run_block(row, inputs, mode);
    const double rtol = std::max(1e-4, 2 * tolerance(t));
    std::string wrong = mode == Mode::exact ? compare_bits("exact result", got.hosts, want.hosts)
                                            : compare_all("result", got.hosts, want.hosts, rtol, rtol / 10);
    if (got.hosts.size() != want.hosts.size()) wrong = "another number of results";
    for (size_t k = 0; k < want.hosts.size() && wrong.empty(); ++k) {
      if (got.hosts[k].dtype != want.hosts[k].dtype) wrong = fmt::format("result {} has another dtype", k);
    }
    if (got.traced.empty()) wrong = "was not traced";
    for (size_t k = 0; k < got.traced.size() && wrong.empty(); ++k) {
      if (got.traced[k].shape != want.hosts[k].shape || got.traced[k].dtype != want.hosts[k].dtype) {
        wrong = fmt::format("result {} was {} in the trace", k, got.traced[k].shape.str());
      }
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

TEST_CASE("users row 26: every operator called in a block gives the same shapes, dtypes and values in both modes",
          "[unsanitized]") {
  size_t compared = 0;
  for (const Row& row : all_rows()) {
    if (row.def->visible_outputs(row.attrs.get()) == 0) continue;  // parts of a training step, not of a network
    for (DType t : dtypes) {
      if (t != DType::float32 && !row.follows_dtype()) break;
      if (!(row.options.tried & dtype_bit(t))) continue;
      INFO(row.str() << " in " << name_of(t));
      const Hosts inputs = make_inputs(row, t);
      const std::string refusal = error_of([&] { run_block(row, inputs, Mode::imperative); });
      CHECK(refusal.empty() == (row.accepts(t) && !row.options.refused));
      if (!refusal.empty()) {
        const std::string hybrid = error_of([&] { run_block(row, inputs, Mode::planned); });
        CHECK(kind(hybrid) == kind(refusal));
        CHECK_THAT(hybrid, Catch::Matchers::Contains(std::string(row.def->name())));
        continue;
      }
      std::string wrong;
      const std::string error = error_of([&] { wrong = compare_modes(row, inputs, t); });
      CHECK(error == "");
      CHECK(wrong == "");
      ++compared;
    }
  }
  CHECK(compared > 2000);
}

namespace {

// The row on other shapes: `f` maps those of the inputs. Of numbers that the row gives the first ones are taken.
template <class F>
Row with_shapes(const Row& row, F f) {
  Row out = row;
  for (Input& i : out.inputs) {
    i.shape = f(i.shape);
    if (i.fill == Fill::given && size_t(i.shape.size()) > i.values.size()) i.fill = Fill::normal;
  }
  return out;
}

bool any_shape(const Row& row, bool (*is)(const Shape&)) {
  return std::any_of(row.inputs.begin(), row.inputs.end(), [&](const Input& i) { return is(i.shape); });
}

enum class Size { no_elements, batch_of_one, no_dimensions };

}  // namespace

TEST_CASE(
    "users row 29: no elements, a batch of one and no dimensions: every operator, both modes, and the reference") {
  NameSet all, referenced[3], accepted[3];
  for (const Row& row : all_rows()) {
    const std::string name(row.def->name());
    if (row.options.refused || row.inputs.empty()) continue;
    all.insert(name);
    INFO(row.str());
    // rows of such shapes: the reference decides, in the cases "op table"
    const bool is[] = {any_shape(row, [](const Shape& s) { return s.size() == 0; }),
                       any_shape(row, [](const Shape& s) { return s.ndim() > 0 && s[0] == 1; }),
                       any_shape(row, [](const Shape& s) { return s.ndim() == 0; })};
    for (Size size : {Size::no_elements, Size::batch_of_one, Size::no_dimensions}) {
      if (is[int(size)]) referenced[int(size)].insert(name);
    }
    // the others made to: both modes give the same, or both refuse
    if (row.def->visible_outputs(row.attrs.get()) == 0) continue;
    const int64_t batch = row.inputs[0].shape.empty() ? -1 : row.inputs[0].shape[0];
    for (Size size : {Size::no_elements, Size::batch_of_one, Size::no_dimensions}) {
      const Row other = with_shapes(row, [&](Shape s) {
        if (size == Size::no_dimensions) return Shape();
        if (!s.empty() && s[0] == batch) s[0] = int(size);
        return s;
      });
      INFO("as " << other.str());
      const Hosts inputs = make_inputs(other, DType::float32);
      const std::string refusal = error_of([&] { run_block(other, inputs, Mode::imperative); });
      if (!refusal.empty()) {
        CHECK_THAT(refusal, Catch::Matchers::Contains(name));
        CHECK(kind(refusal) != "another error");
        CHECK(kind(error_of([&] { run_block(other, inputs, Mode::planned); })) == kind(refusal));
        continue;
      }
      accepted[int(size)].insert(name);
      std::string wrong;
      const std::string error = error_of([&] { wrong = compare_modes(other, inputs, DType::float32); });
      CHECK(error == "");
      CHECK(wrong == "");
    }
  }
  all.erase("_rnn_parameters");             // one vector, in which every part has elements
  all.erase("_contrib_calibrate_entropy");  // a histogram has bins
  all.erase("_npi_multinomial");            // there are probabilities
  // without dimensions they take an array for one of one element; both modes agree, and no row has a reference yet
  for (const char* name : {"_contrib_quantize_asym", "_contrib_quantize_v2", "_npi_einsum", "_npi_tensordot",
                           "_npi_tensordot_int_axes", "kron", "outer"}) {
    accepted[2].erase(name);
  }
  CHECK(minus(all, referenced[0]) == NameSet{});
  CHECK(minus(all, referenced[1]) == NameSet{});
  CHECK(minus(accepted[2], referenced[2]) == NameSet{});
}

TEST_CASE("users row 21: train, infer, train through every operator with a gradient, bit by bit") {
  NameSet names;
  for (const Row& row : all_rows()) {
    if (row.options.refused || row.def->visible_outputs(row.attrs.get()) == 0) continue;
    const Hosts first = make_inputs(row, DType::float32), second = make_inputs(row, DType::float32, 1);
    if (!has_gradient(row, first)) continue;
    INFO(row.str());
    const RowSymbol program = symbol_of(row);
    CachedGraph graph(program.symbol, program.names, {.static_alloc = true, .exact = true}, "row");
    auto planned = [&](const std::vector<NDArray>& arrays) {
      std::vector<const NDArray*> pointers;
      for (const NDArray& a : arrays) pointers.push_back(&a);
      return graph.call(pointers, std::source_location::current());
    };
    auto train = [&](const Hosts& inputs) {
      const Gradients got = backward(row, inputs, GradReq::write, planned), want = backward(row, inputs);
      const std::string wrong = compare_bits("gradient", got.inputs, want.inputs);
      return wrong.empty() ? compare_bits("output", got.outputs, want.outputs) : wrong;
    };
    CHECK(train(first) == "");
    const std::vector<NDArray> arrays = make_arrays(first);
    in_mode(row, false, arrays, planned);
    CHECK(train(second) == "");
    CHECK(train(first) == "");
    names.insert(std::string(row.def->name()));
  }
  CHECK(names.size() > 100);
}

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

// Smaller than any normal number of the dtype.
double denormal(DType t) {
  switch (t) {
    case DType::float64: return 1e-310;
    case DType::float16: return 1e-7;
    default: return 1e-40;
  }
}

// What neither the operator's formula nor NumPy settles.
bool is_open(const Row& row, size_t input, double special, Device device) {
  const std::string_view name = row.def->name();
  // which elements of a factor or of a solution a number reaches is the algorithm's, BLAS reads no array that is
  // weighed by 0, and einsum sums one array before it multiplies; a pixel of weight 0 beside an infinite one; an
  // infinite mean
  const bool is_of_matrices =
      name.starts_with("_linalg_") || name == "_npi_solve" || name == "_npi_svd" || name == "_npi_einsum";
  const bool is_limit = name == "_image_resize" || (name == "_random_pdf_generalized_negative_binomial" && input > 0);
  static const NameSet without_division{"_linalg_gemm",         "_linalg_gemm2",     "_linalg_syrk",
                                        "_linalg_trmm",         "_linalg_makediag",  "_linalg_extractdiag",
                                        "_linalg_extracttrian", "_linalg_maketrian", "_npi_einsum"};
  const bool is_singular = is_of_matrices && !without_division.contains(std::string(name));
  if (is_singular || ((is_of_matrices || is_limit) && !std::isfinite(special))) return true;
  const bool is_backward = name.starts_with("_backward_");
  if (name.find("onvolution") != name.npos && !std::isfinite(special)) {
    // cuDNN has zeros around and between the elements of what is spread, and they meet the weights
    const bool spreads = name == "_backward_Convolution_data" || name == "Deconvolution";
    if (device.type == DeviceType::gpu && spreads && input == 1) return true;
    // the zeros around an image: do they meet what stands beside the image, or are they left out?
    return row.str().find("pad=") != std::string::npos && (is_backward || input == 1);
  }
  // a learning rate by which float32 cannot divide
  if (name.starts_with("_kaon_multi_update") && row.str().find("rule=ft") != std::string::npos) {
    if (input + 1 == row.inputs.size()) return true;
  }
  // a norm by which it cannot; a weight whose square is 0
  const bool is_denormal = special != 0 && std::isfinite(special);
  if (name.ends_with("lamb_update_phase2") && input == 3 && is_denormal) return true;
  if (name.ends_with("lamb_update") && is_denormal) return true;
  // a range without an end, or a net whose layers have one: levels of which nothing is said
  const bool is_of_levels =
      name.find("quantize") != name.npos || name.starts_with("_sg_") || name == "_contrib_calibrate_entropy";
  if (is_of_levels) return input > 0 || (name != "_contrib_quantize" && name != "_contrib_dequantize");
  if (name.ends_with("ravel_multi_index") || name == "_unravel_index") return !std::isfinite(special);  // no index
  if ((name == "_histogram" && input == 1) || (name == "searchsorted" && input == 0)) return true;      // no order
  // a label that is the blank; a probability above 1, or none; NaN times the gradient 0 of a step that a sequence does
  // not have
  if ((name == "CTCLoss" || name == "_ctc_loss_of_logs") && input == 1) return true;
  if (name == "_ctc_loss_of_logs" && (special == inf || std::isnan(special))) return true;
  // which sums it reaches through a root of unity with a part that is 0
  if ((name == "_contrib_fft" || name == "_contrib_ifft") && !std::isfinite(special)) return true;
  // times without an end; differences of what is not finite as the reference of derivatives
  if (name.ends_with("hawkesll") && !std::isfinite(special)) return true;
  if (name == "_backward_hawkesll" && input == 0) return true;          // the gradient of log 0, times 0
  if (name == "_image_random_hue" && std::isinf(special)) return true;  // no hue
  // 1 / alpha is more than float32 holds
  if (name == "_random_pdf_generalized_negative_binomial" && input == 2 && std::isfinite(special)) return true;
  if (name == "RNN" && std::isinf(special)) return true;  // times something near 0, whose sign is rounding's
  if (name == "_backward_rnn_scan" && !std::isfinite(special)) return true;
  // NaN and infinity times the weight 0 of a key that a query does not see
  if (name == "_backward_scaled_dot_product_attention" && !std::isfinite(special)) return true;
  if (name == "ROIPooling" && input == 1 && std::isinf(special)) return true;  // a third of a region without end
  // a head times a slope that is 0, or the difference of two that are infinite
  if (name == "_backward_sample_images_positions" && input == 0 && !std::isfinite(special)) return true;
  if (name == "_backward_DeformablePSROIPooling_trans" && input <= 1 && std::isinf(special)) return true;
  // matrices whose inverse or singular values the row gives; points that no longer ascend; a weight beside 0
  if (name.starts_with("_npi_pinv") || name.starts_with("_npi_tensor") || name.starts_with("_npi_eig")) return true;
  if (name == "interp" && input == 1) return true;
  if (name == "_npi_average" && input == 1) return true;
  if ((name == "_npi_norm" || name == "linalg_norm") && row.inputs[0].fill == Fill::given) return true;
  if (name.ends_with("Proposal") && input > 0 && !std::isfinite(special))
    return true;  // do boxes without a size overlap?
  // a norm that is much smaller than one of its numbers
  if (name == "_backward_Pooling" && row.str().find("pool_type=lp") != std::string::npos && std::isfinite(special)) {
    return input == 2;
  }
  if (!is_backward || std::isnan(special) || special == 0) return false;
  // what no forward gives: a standard deviation of nothing, or its infinite inverse; terms of which two are infinite
  if (name.ends_with("Norm")) return input >= 2;
  return std::isinf(special) &&
         (name == "_backward_Activation" ? input == 1
                                         : name == "_backward_SoftmaxOutput" || name == "_backward_product_scan");
}

// The operator with one special number among its inputs, as the reference has it.
std::string check_special(const Row& row, const Hosts& inputs, DType t, Device device) {
  Hosts got;
  try {
    got = run(row, inputs);
  } catch (const IndexError&) {  // no index
    return "";
  }
  if (device != cpu()) got = run(row, inputs, device);
  Hosts want = expected(row, inputs, t);
  for (size_t k = 0; k < want.size(); ++k) {
    const bool real = is_floating(*want[k].dtype);
    for (size_t e = 0; e < want[k].values.size(); ++e) {
      if (!real && !std::isfinite(want[k][e])) want[k].values[e] = got.at(k)[e];  // no integer is meant
    }
    want[k] = read(make_array(want[k]));
    const double fine = t == DType::float64 ? row.options.tolerance : std::max(tolerance(*want[k].dtype), 1e-5);
    const double tol = real ? 2 * fine * row.options.loosen : 0;
    std::string wrong = compare("result", got.at(k), want[k], tol, 0.1 * tol * std::max(1.0, largest(want[k])));
    if (!wrong.empty() || !row.def->traits.pointwise) return wrong;
    for (size_t e = 0; e < want[k].values.size(); ++e) {
      if (want[k][e] == 0 && std::signbit(got[k][e]) != std::signbit(want[k][e])) {
        return fmt::format("the sign of 0 at {}: got {}", e, got[k][e]);
      }
    }
  }
  return "";
}

// Special numbers in every `step`-th position of every input of every operator.
void check_special_values(Device device, size_t step) {
  NameSet names;
  std::map<std::string_view, int> failures;
  constexpr DType others[] = {DType::float64, DType::float16, DType::bfloat16};
  size_t turn = 0;
  for (const Row& row : all_rows()) {
    if (device != cpu() && !row.options.on_gpu) continue;
    if (!row.reference || row.options.refused) continue;
    const DType other = others[turn++ % 3];
    for (DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      if (device != cpu() && t != DType::float32 && t != other) continue;  // each run waits for three copies
      if (!row.accepts(t) || !(row.options.tried & dtype_bit(t))) continue;
      if (t != DType::float32 && !row.follows_dtype()) break;
      if (t == DType::float64 && row.def->name() == "_image_to_tensor") continue;  // its result is float32
      const Hosts inputs = make_inputs(row, t);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!is_floating(*inputs[i].dtype) || inputs[i].values.size() > 64) continue;
        for (double special : {not_a_number, inf, -inf, -0.0, denormal(t)}) {
          if (is_open(row, i, special, device) || (row.inputs[i].dtype && !std::isfinite(special))) continue;
          for (size_t at = 0; at < inputs[i].values.size(); at += step) {
            Hosts changed = inputs;
            changed[i].values[at] = special;
            changed[i] = read(make_array(changed[i]));
            const std::string wrong = check_special(row, changed, t, device);
            names.insert(std::string(row.def->name()));
            if (wrong.empty() || ++failures[row.def->name()] > 5) continue;
            INFO(row.str() << " in " << name_of(t) << ", input " << i << " at " << at << " = " << special);
            CHECK(wrong == "");
          }
        }
      }
    }
  }
  CHECK(names.size() > 150);
}

}  // namespace

TEST_CASE("users row 59: NaN, infinities, -0 and denormals in every position of every operator",
          "[special][unsanitized][arithmetic]") {
  check_special_values(cpu(), 1);
}

TEST_CASE("users row 59: NaN, infinities, -0 and denormals through every operator on a GPU", "[special][cuda]") {
  if (!has_gpu()) return;
  check_special_values(gpu(0), 41);
}

TEST_CASE("users row 59: what is no index is refused or clipped, never followed", "[special]") {
  for (const Row& row : all_rows()) {
    if (!row.reference || row.options.refused || !row.accepts(DType::float32)) continue;
    const Hosts inputs = make_inputs(row, DType::float32), usual = run(row, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!row.inputs[i].dtype || !is_floating(*inputs[i].dtype)) continue;
      for (double special : {not_a_number, inf, -inf, 1e30, -1e30}) {
        for (size_t at = 0; at < inputs[i].values.size(); ++at) {
          Hosts changed = inputs;
          changed[i].values[at] = special;
          changed[i] = read(make_array(changed[i]));
          INFO(row.str() << ", input " << i << " at " << at << " = " << special);
          std::string wrong;
          try {
            const Hosts got = run(row, changed);
            for (size_t k = 0; k < usual.size(); ++k) wrong += got.at(k).shape == usual[k].shape ? "" : "another shape";
          } catch (const IndexError& e) {
            wrong = std::string(e.what()).find(row.def->name()) == std::string::npos ? e.what() : "";
          }
          CHECK(wrong == "");
        }
      }
    }
  }
}

TEST_CASE("users row 59: fused chains have special values come out as single operators do", "[special]") {
  NameSet names;
  for (const Row& row : all_rows()) {
    if (!row.def->traits.pointwise || row.options.refused || row.inputs.empty()) continue;
    if (row.def->visible_outputs(row.attrs.get()) != 1 || row.def->traits.random) continue;
    Hosts inputs = make_inputs(row, DType::float32);
    bool real = true;
    for (const Host& h : inputs) real = real && h.dtype == DType::float32;
    if (!real) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {  // in two arrays every pair meets
      for (size_t at = 0; at < inputs[i].values.size(); ++at) {
        const double specials[] = {not_a_number, inf, -inf, -0.0, 1e-40, 0.75, -3};
        inputs[i].values[at] = specials[(i == 0 ? at : at / 7) % 7];
      }
      inputs[i] = read(make_array(inputs[i]));
    }
    INFO(row.str());
    const std::vector<NDArray> arrays = make_arrays(inputs);
    const NDArray y = call(row, arrays, true)[0];
    if (!is_floating(y.dtype())) continue;
    const RowSymbol program = symbol_of(row);
    CachedGraph graph(sym.relu(program.symbol * 2) - program.symbol, program.names, {}, "chain");
    std::vector<const NDArray*> pointers;
    for (const NDArray& a : arrays) pointers.push_back(&a);
    const NDArray got = graph.call(pointers, std::source_location::current())[0];
    CHECK(compare("result", read(got), read(nd.relu(y * 2) - y), 1e-4, 1e-5) == "");
    names.insert(std::string(row.def->name()));
  }
  CHECK(names.size() > 50);
}

}  // namespace every_operator_test
