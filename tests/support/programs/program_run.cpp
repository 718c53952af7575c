#include "kaon/tests/support/programs/program_run.h"

#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/ops/nn/conv/conv.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/support/programs/program_evaluate.h"

namespace kaon::test {
namespace {

std::vector<uint32_t> kept(const Program& p) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {
    const ProgramNode& n = p.nodes[i];
    if (n.kind == Kind::variable && (n.role == Role::parameter || n.role == Role::state)) found.push_back(i);
  }
  return found;
}

// What gradients are asked of: the data and the parameters.
std::vector<NDArray> leaves(const ProgramNet& net, const std::vector<NDArray>& data) {
  std::vector<NDArray> all;
  for (const NDArray& x : data) {
    if (is_floating(x.dtype())) all.push_back(x);
  }
  for (const gluon::Parameter& p : net.parameters) {
    if (p.grad_req() != GradReq::null) all.push_back(p.data());
  }
  return all;
}

struct Weighed {
  std::vector<NDArray> values, weights;
};
// Without the unused ones.
Weighed weigh(const std::vector<NDArray>& results, uint32_t unused) {
  Weighed w;
  for (size_t i = 0; i < results.size(); ++i) {
    const NDArray& y = results[i];
    if (!is_floating(y.dtype()) || !autograd::wants_gradient(y) || (unused >> i & 1) != 0) continue;
    w.values.push_back(y);
    w.weights.push_back(weights_like(y));
  }
  return w;
}

// Gradients of the weighed results, recorded; their weighed sum if a gradient flows into it.
NDArray first_gradients(const ProgramNet& net, const std::vector<NDArray>& data, std::vector<NDArray>& outputs,
                        uint32_t unused) {
  const Weighed y = weigh(outputs, unused);
  if (y.values.empty()) return NDArray();
  const std::vector<NDArray> g = autograd::grad(y.values, leaves(net, data), y.weights, true, true);
  NDArray sum;
  for (const NDArray& a : g) {
    outputs.push_back(a);
    if (!autograd::wants_gradient(a)) continue;
    const NDArray part = nd.sum(a * weights_like(a)).astype(DType::float64);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// An array of numbers from -2^-18 to 2^-18.
NDArray winograd_factors(const NDArray& like, uint64_t seed) {
  ProgramNode factors;
  factors.range = {-0x1p-18, 0x1p-18};
  factors.seed = seed;
  factors.outputs = {{like.shape(), like.dtype()}};
  return make_variable(factors, 0, 0);
}

// A convolution whose result and gradients are changed by up to the bounds of HybridizeOptions::winograd for each
// element: 2^-18 max|x| sum|w|, of the images' gradient 2^-18 max|dy| sum|w|, of the weights' 2^-18 max|x| sum|dy|. Its
// gradients have none.
NDArray disturbed_convolution(const ProgramNode& call, const std::vector<NDArray>& inputs, uint64_t seed) {
  const bool last = is_channels_last(static_cast<const op::Convolution*>(call.attrs.get())->layout);
  const int channel = last ? 3 : 1;
  const Shape along = last ? Shape(1, 1, 1, -1) : Shape(1, -1, 1, 1);
  const auto sums = [](const NDArray& a, int axis) {
    return nd.sum(nd.abs(a), {.axis = Shape(axis), .exclude = true});
  };
  const auto largest = [](const NDArray& a) { return nd.max(nd.abs(a)); };
  const auto apply = [def = call.def, attrs = call.attrs](std::span<const NDArray> in) {
    std::vector<const NDArray*> pointers;
    for (const NDArray& a : in) pointers.push_back(&a);
    std::vector<NDArray> out(1);
    NDArray::apply(*def, attrs.get(), pointers, out, std::source_location::current(), "");
    return out[0];
  };
  const auto forward = [=](const NDArray& x, const NDArray& w, const auto&... bias) {
    const NDArray in[] = {x, w, bias...};
    const NDArray y = apply(in);
    return y + winograd_factors(y, seed) * largest(x) * nd.reshape(sums(w, 0), along);
  };
  const auto backward = [=](const autograd::FunctionCall& of) {
    std::vector<NDArray> own;
    for (const NDArray& a : of.inputs) own.push_back(a.copy()), own.back().attach_grad();
    NDArray y;
    autograd::record([&] { y = apply(own); });
    const NDArray& head = of.heads[0];
    y.backward(head);
    std::vector<NDArray> gradients;
    for (const NDArray& a : own) gradients.push_back(a.grad());
    gradients[0] = gradients[0] + winograd_factors(own[0], seed + 1) * largest(head) *
                                      nd.reshape(sums(own[1].detach(), channel), along);
    gradients[1] = gradients[1] + winograd_factors(own[1], seed + 2) * largest(own[0].detach()) *
                                      nd.reshape(sums(head, channel), {-1, 1, 1, 1});
    return gradients;
  };
  const autograd::Function convolution(forward, backward);
  return inputs.size() == 2 ? convolution(inputs[0], inputs[1]) : convolution(inputs[0], inputs[1], inputs[2]);
}

}  // namespace

bool may_be_winograd(const ProgramNode& call) {
  if (call.kind != Kind::call || call.def != &op::Convolution::def) return false;
  const auto& op = *static_cast<const op::Convolution*>(call.attrs.get());
  const auto are_one = [](const Shape& s) { return s.ndim() == 0 || s == Shape(1, 1); };
  return op.kernel == Shape(3, 3) && are_one(op.stride) && are_one(op.dilate) && op.num_group == 1 &&
         op.num_filter >= 32 && call.outputs[0].dtype == DType::float32;
}

ProgramNet::ProgramNet(const Program& p, Noise noise)
    : HybridBlock("program"),
      program(std::make_shared<const Program>(p)),
      parameters([&] {
        std::vector<gluon::Parameter> all;
        for (uint32_t i : kept(p)) {
          const ProgramNode& n = p.nodes[i];
          const bool learns = n.role == Role::parameter && is_floating(n.outputs[0].dtype);
          all.push_back(param(fmt::format("p{}", i), n.outputs[0].shape,
                              {.dtype = n.outputs[0].dtype,
                               .grad_req = learns ? GradReq::write : GradReq::null,
                               .differentiable = learns}));
          all.back().set_data(make_variable(n, 0, 0));
        }
        return all;
      }()),
      noise(noise) {}

template <class A>
std::vector<A> ProgramNet::run(std::vector<A> data) {
  std::vector<A> in;
  size_t next = 0, next_parameter = 0;
  for (const ProgramNode& n : program->nodes) {
    if (n.kind != Kind::variable || n.role == Role::constant) continue;
    in.push_back(n.role == Role::data ? data[next++] : parameters[next_parameter++].template as<A>());
  }
  if constexpr (std::is_same_v<A, NDArray>) {
    if (noise.rounding != 0) {
      uint64_t seed = program->seed;
      auto change = [&](const ProgramNode& n, const std::vector<NDArray>& inputs, std::vector<NDArray>& results) {
        if (noise.winograd && may_be_winograd(n)) results[0] = disturbed_convolution(n, inputs, seed += 3);
        disturb(results, noise.rounding, seed);
      };
      disturb(in, noise.rounding, seed);
      return Evaluation<A>(*program, change).run(in);
    }
  }
  return Evaluation<A>(*program).run(in);
}
template std::vector<NDArray> ProgramNet::run(std::vector<NDArray>);
template std::vector<Symbol> ProgramNet::run(std::vector<Symbol>);

std::vector<NDArray> ProgramNet::call(const std::vector<NDArray>& data) const {
  switch (data.size()) {
    case 1: return (*this)(data[0]);
    case 2: return (*this)(data[0], data[1]);
    case 3: return (*this)(data[0], data[1], data[2]);
    case 4: return (*this)(data[0], data[1], data[2], data[3]);
  }
  throw std::runtime_error(fmt::format("a program with {} data variables", data.size()));
}

std::vector<NDArray> data_of(const Program& program, int64_t rows, uint64_t call) {
  std::vector<NDArray> data;
  for (uint32_t i : variables(program, Role::data)) data.push_back(make_variable(program.nodes[i], rows, call));
  return data;
}

NDArray weights_like(const NDArray& result) {
  ProgramNode weights;
  weights.range = {-0.4, 0.6};
  weights.outputs = {{result.shape(), result.dtype()}};
  return make_variable(weights, 0, 0);
}

void disturb(std::vector<NDArray>& results, double noise, uint64_t& seed) {
  for (NDArray& a : results) {
    if (!is_floating(a.dtype()) || a.size() == 0) continue;
    ProgramNode factors;
    factors.range = {1 - noise, 1 + noise};
    factors.seed = ++seed;
    factors.outputs = {{a.shape(), DType::float64}};
    const std::vector<double> values = values_of(factors, a.shape(), 0);
    a = a * NDArray::from(values.data(), values.size(), a.shape(), a.dtype());
  }
}

Outcome run_phase(const ProgramNet& net, Phase phase, int64_t rows, uint64_t call) {
  Outcome out;
  try {
    std::vector<NDArray> data = data_of(*net.program, rows, call);
    random::seed(call + 1);
    std::vector<NDArray> outputs;
    if (phase == Phase::predict) {
      outputs = net.call(data);
    } else {
      for (NDArray& x : data) {
        if (is_floating(x.dtype())) x.attach_grad();
      }
      for (gluon::Parameter p : net.parameters) {
        if (p.grad_req() != GradReq::null) p.zero_grad();
      }
      const bool training = phase == Phase::train || phase == Phase::second_training;
      const uint32_t unused = unused_in(*net.program, call);
      const bool twice = phase == Phase::second || phase == Phase::second_training;
      NDArray sum;
      autograd::record(
          [&] {
            outputs = net.call(data);
            if (twice) sum = first_gradients(net, data, outputs, unused);
          },
          training);
      if (twice) {
        if (sum.defined()) sum.backward();
      } else if (const Weighed y = weigh(outputs, unused); !y.values.empty()) {
        autograd::backward(y.values, y.weights);
      }
      for (const NDArray& x : leaves(net, data)) out.gradients.push_back(read(x.grad()));
    }
    out.outputs = read_all(outputs);
    for (const gluon::Parameter& p : net.parameters) {
      if (p.is_auxiliary()) out.states.push_back(read(p.data()));
    }
    nd.waitall();
  } catch (const std::exception& e) {
    out = Outcome{.outputs = {}, .gradients = {}, .states = {}, .error = e.what()};
    try {
      nd.waitall();
    } catch (const std::exception&) {  // the same failure once more
    }
  }
  return out;
}

}  // namespace kaon::test
