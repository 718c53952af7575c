// Losses beside MXNet 1.9.1 and PyTorch, which have written data/gluon_losses.json by make_gluon_losses.py: values and
// gradients, imperative, hybridized, exact and in other dtypes.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "kaon/gluon/loss.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_losses_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;
namespace loss = kaon::gluon::loss;

namespace {

using Arrays = std::vector<NDArray>;

NDArray array_of(const json::value& v) {
  if (v.is_null()) return {};
  Shape shape;
  for (const auto& d : v.at("shape").as_array()) shape.push_back(d.as_int64());
  std::vector<double> values;
  for (const auto& x : v.at("values").as_array()) values.push_back(x.to_number<double>());
  if (shape.ndim() == 0) shape = Shape(1);
  return nd.array(values, shape, {.dtype = DType::float64});
}

struct Made {
  std::function<void(const HybridizeOptions*)> hybridize;
  std::function<NDArray(const Arrays&)> call;
};

const std::vector<NDArray> none;

// A block that takes its inputs one after the other, from `least` to `most`.
template <class L, size_t least = 2, size_t most = 3>
std::function<Made(const Arrays&)> plain(std::function<L()> make) {
  return [make](const Arrays&) -> Made {
    L l = make();
    auto call = [l](const Arrays& a) {
      if constexpr (least == most && least == 2) {
        return l(a[0], a[1]);
      } else if constexpr (least == most) {
        return l(a[0], a[1], a[2]);
      } else {
        return a.size() == 2 ? l(a[0], a[1]) : l(a[0], a[1], a[2]);
      }
    };
    return {[l](const HybridizeOptions* o) mutable { o ? l.hybridize(*o) : l.hybridize(false); }, call};
  };
}
template <class L, class Call>
std::function<Made(const Arrays&)> called(std::function<L()> make, Call call) {
  return [make, call](const Arrays&) -> Made {
    L l = make();
    return {[l](const HybridizeOptions* o) mutable { o ? l.hybridize(*o) : l.hybridize(false); },
            [l, call](const Arrays& a) { return call(l, a); }};
  };
}
// The third input has the weights of the classes.
std::function<Made(const Arrays&)> weighted(loss::SoftmaxCEOptions o) {
  return [o](const Arrays& a) -> Made {
    loss::SoftmaxCELoss l(o, a[2]);
    return {[l](const HybridizeOptions* h) mutable { h ? l.hybridize(*h) : l.hybridize(false); },
            [l](const Arrays& in) { return l(in[0], in[1]); }};
  };
}

using BCE = loss::SigmoidBCELoss;
using CE = loss::SoftmaxCELoss;
using CTC = loss::CTCLoss;

auto positive(loss::SigmoidBCEOptions o) {
  return called<BCE>([o] { return BCE(o); },
                     [](const BCE& l, const Arrays& a) {
                       return a[2].defined() ? l(a[0], a[1], a[2], a[3]) : l(a[0], a[1], none, a[3]);
                     });
}
auto ctc(loss::CTCOptions o) {
  return called<CTC>([o] { return CTC(o); },
                     [](const CTC& l, const Arrays& a) {
                       if (a.size() == 2) return l(a[0], a[1]);
                       if (a.size() == 3) return l(a[0], a[1], a[2]);
                       if (a.size() == 5) return l(a[0], a[1], a[2], a[3], a[4]);
                       return a[2].defined() ? l(a[0], a[1], a[2], a[3]) : l(a[0], a[1], none, a[3]);
                     });
}
auto ce(loss::SoftmaxCEOptions o) {
  return plain<CE>([o] { return CE(o); });
}

// As in make_gluon_losses.py.
const std::map<std::string, std::function<Made(const Arrays&)>>& losses() {
  static const auto* all = new std::map<std::string, std::function<Made(const Arrays&)>>{
      {"l1", plain<loss::L1Loss>([] { return loss::L1Loss(); })},
      {"l2_samples", plain<loss::L2Loss>([] { return loss::L2Loss({.weight = 0.5}); })},
      {"l1_axis", plain<loss::L1Loss>([] { return loss::L1Loss({.batch_axis = 1}); })},
      {"huber", plain<loss::HuberLoss>([] { return loss::HuberLoss({.rho = 0.75, .weight = 2}); })},
      {"hinge", plain<loss::HingeLoss>([] { return loss::HingeLoss({.margin = 0.5}); })},
      {"squared_hinge", plain<loss::SquaredHingeLoss>([] { return loss::SquaredHingeLoss(); })},
      {"logistic", plain<loss::LogisticLoss>([] { return loss::LogisticLoss(); })},
      {"kl", plain<loss::KLDivLoss>([] { return loss::KLDivLoss({.from_logits = false}); })},
      {"ce", ce({})},
      {"ce_axis", ce({.axis = 1, .weight = 0.5})},
      {"ce_dense", ce({.sparse_label = false})},
      {"bce", plain<BCE>([] { return BCE(); })},
      {"bce_positive", positive({})},
      {"bce_positive_samples", positive({.weight = 2})},
      {"bce_positive_sigmoid", positive({.from_sigmoid = true})},
      {"ctc", ctc({})},
      {"ctc_tnc", ctc({.layout = loss::PredLayout::TNC, .weight = 0.5})},
      {"ctc_tn", ctc({.label_layout = loss::LabelLayout::TN})},
      {"ctc_steps", ctc({})},
      {"ctc_sizes", ctc({})},
      {"ctc_both", ctc({})},
      {"ctc_all", ctc({.layout = loss::PredLayout::TNC, .label_layout = loss::LabelLayout::TN, .weight = 3})},
      {"triplet", plain<loss::TripletLoss, 3>([] { return loss::TripletLoss(); })},
      {"triplet_axis",
       plain<loss::TripletLoss, 3>([] { return loss::TripletLoss({.margin = 4, .weight = 0.5, .batch_axis = 1}); })},
      {"poisson", plain<loss::PoissonNLLLoss>([] { return loss::PoissonNLLLoss(); })},
      {"poisson_rates",
       plain<loss::PoissonNLLLoss>([] { return loss::PoissonNLLLoss({.weight = 2, .from_logits = false}); })},
      {"poisson_full", plain<loss::PoissonNLLLoss>([] { return loss::PoissonNLLLoss({.compute_full = true}); })},
      {"cosine", plain<loss::CosineEmbeddingLoss, 3>([] { return loss::CosineEmbeddingLoss(); })},
      {"cosine_margin",
       called<loss::CosineEmbeddingLoss>([] { return loss::CosineEmbeddingLoss({.weight = 2, .margin = 0.1}); },
                                         [](const auto& l, const Arrays& a) { return l(a[0], a[1], a[2], a[3]); })},
      {"sdml", plain<loss::SDMLLoss, 2, 2>([] { return loss::SDMLLoss(); })},
      {"sdml_smoothing", plain<loss::SDMLLoss, 2, 2>([] { return loss::SDMLLoss({.smoothing_parameter = 0.1}); })},
      // PyTorch's
      {"smooth_l1", plain<loss::SmoothL1Loss>([] { return loss::SmoothL1Loss(); })},
      {"smooth_l1_beta", plain<loss::SmoothL1Loss>([] { return loss::SmoothL1Loss({.beta = 0.5}); })},
      {"smooth_l1_zero", plain<loss::SmoothL1Loss>([] { return loss::SmoothL1Loss({.beta = 0}); })},
      {"ce_smoothing", ce({.label_smoothing = 0.1})},
      {"ce_ignore", ce({.ignore_label = -1})},
      {"ce_weights", weighted({})},
      {"ce_everything", weighted({.label_smoothing = 0.25, .ignore_label = -1})},
      {"ce_image", ce({.axis = 1, .label_smoothing = 0.1, .ignore_label = 255})},
      {"ce_image_weights", weighted({.axis = 1, .label_smoothing = 0.1, .ignore_label = 255})},
      {"ce_dense_smoothing", ce({.sparse_label = false, .label_smoothing = 0.1})},
      {"ce_dense_weights", weighted({.sparse_label = false, .label_smoothing = 0.1})},
      {"ce_dense_image", weighted({.axis = 1, .sparse_label = false})},
      {"poisson_zeros", plain<loss::PoissonNLLLoss>([] { return loss::PoissonNLLLoss({.compute_full = true}); })},
      {"bce_torch",
       called<BCE>([] { return BCE(); }, [](const BCE& l, const Arrays& a) { return l(a[0], a[1], none, a[2]); })},
  };
  return *all;
}

json::object golden() {
  std::ifstream in(golden_dir() / "gluon_losses.json");
  std::stringstream text;
  text << in.rdbuf();
  return json::parse(text.str()).as_object();
}

void check_close(const NDArray& got, const NDArray& wanted, double tolerance) {
  const auto a = got.asvector<double>(), b = wanted.asvector<double>();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("element " << i << ": got " << a[i] << ", wanted " << b[i]);
    REQUIRE(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])));
  }
}

std::string_view name_of_library(const json::object& wanted) {
  const std::string_view by = wanted.at("by").as_string();
  return by.substr(0, by.find(' '));
}

void check_case(const std::string& name, const json::object& wanted, DType dtype, const HybridizeOptions* options,
                double tolerance) {
  const bool is_torch = name_of_library(wanted) == "torch";
  Arrays inputs;
  for (const auto& v : wanted.at("inputs").as_array()) {
    inputs.push_back(array_of(v));
    if (inputs.back().defined()) inputs.back() = inputs.back().astype(dtype);
  }
  for (const auto& i : wanted.at("wants").as_array()) inputs[size_t(i.as_int64())].attach_grad();
  const Made made = losses().at(name)(inputs);
  made.hybridize(options);
  const NDArray out_wanted = array_of(wanted.at("out"));
  for (int round = 0; round < 2; ++round) {
    const NDArray out = autograd::record([&] {
      NDArray y = made.call(inputs);
      return is_torch ? y.mean() : y;
    });
    REQUIRE(out.dtype() == dtype);
    if (!is_torch) REQUIRE(out.shape() == out_wanted.shape());
    check_close(out, out_wanted, tolerance);
    if (wanted.at("wants").as_array().empty()) continue;
    out.backward((nd.arange(double(out.size())).reshape(out.shape()) * 0.25 + 1).astype(dtype));
    for (size_t i = 0; i < wanted.at("wants").as_array().size(); ++i) {
      INFO("gradient " << i);
      check_close(inputs[size_t(wanted.at("wants").as_array()[i].as_int64())].grad(),
                  array_of(wanted.at("grads").as_array()[i]), tolerance);
    }
  }
}

}  // namespace

TEST_CASE("golden losses: every case is as MXNet or PyTorch has it", "[golden]") {
  const json::object all = golden();
  CHECK(all.size() == losses().size());
  const HybridizeOptions plan{.static_alloc = true, .static_shape = true};
  const HybridizeOptions exact{.static_alloc = true, .static_shape = true, .exact = true};
  for (const auto& [key, value] : all) {
    const std::string name(key);
    INFO(name);
    for (int threads : {0, 2}) {
      Engine engine({.threads = threads});
      EngineScope scope(engine);
      INFO(threads << " threads");
      for (const HybridizeOptions* options : {static_cast<const HybridizeOptions*>(nullptr), &plan, &exact}) {
        INFO((options ? options->exact ? "exact" : "hybridized" : "imperative"));
        check_case(name, value.as_object(), DType::float32, options, 2e-5);
        // MXNet has computed in float32, PyTorch in float64
        const bool is_torch = name_of_library(value.as_object()) == "torch";
        check_case(name, value.as_object(), DType::float64, options, is_torch ? 1e-6 : 2e-5);
      }
      check_case(name, value.as_object(), DType::float16, &plan, 2e-2);
      engine.wait_all();
    }
  }
}

}  // namespace golden_losses_test
