#include "kaon/tests/support/reference.h"

#include <cmath>
#include <stdexcept>

namespace kaon::test {

using namespace engine;
namespace {

size_t offset(const Shape& shape, const Shape& position) {
  if (position.ndim() != shape.ndim()) throw std::out_of_range("position " + position.str() + " in " + shape.str());
  int64_t o = 0;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (position[i] < 0 || position[i] >= shape[i]) {
      throw std::out_of_range("position " + position.str() + " in " + shape.str());
    }
    o = o * shape[i] + position[i];
  }
  return size_t(o);
}

Shape padded(const Shape& s, int ndim) {
  Shape out = Shape::filled(ndim - s.ndim(), 1);
  for (int64_t d : s) out.push_back(d);
  return out;
}

}  // namespace

double Host::at(const Shape& position) const { return values[offset(shape, position)]; }
double& Host::at(const Shape& position) { return values[offset(shape, position)]; }

Host zeros(const Shape& shape, double value) { return {shape, std::vector<double>(size_t(shape.size()), value)}; }

void each(const Shape& shape, FunctionRef<void(const Shape&)> body) {
  Shape position = Shape::filled(shape.ndim(), 0);
  for (int64_t n = shape.size(); n > 0; --n) {
    body(position);
    for (int i = shape.ndim() - 1; i >= 0 && ++position[i] == shape[i]; --i) position[i] = 0;
  }
}

Host generate(const Shape& shape, FunctionRef<double(const Shape&)> f) {
  Host out = zeros(shape);
  size_t i = 0;
  each(shape, [&](const Shape& p) { out.values[i++] = f(p); });
  return out;
}

Shape with(Shape position, int axis, int64_t value) {
  position[axis < 0 ? axis + position.ndim() : axis] = value;
  return position;
}

Shape without(const Shape& position, int axis) {
  if (axis < 0) axis += position.ndim();
  Shape out;
  for (int i = 0; i < position.ndim(); ++i) {
    if (i != axis) out.push_back(position[i]);
  }
  return out;
}

Shape inserted(const Shape& position, int axis, int64_t value) {
  if (axis < 0) axis += position.ndim() + 1;
  Shape out;
  for (int i = 0; i <= position.ndim(); ++i) {
    if (i == axis) out.push_back(value);
    if (i < position.ndim()) out.push_back(position[i]);
  }
  return out;
}

Host reduced(const Host& x, const Shape& axes, bool keepdims, FunctionRef<double(const std::vector<double>&)> f) {
  std::vector<bool> gone(size_t(x.shape.ndim()), axes.empty());
  for (int64_t a : axes) gone[size_t(a < 0 ? a + x.shape.ndim() : a)] = true;
  auto project = [&](const Shape& s, int64_t removed) {
    Shape out;
    for (int i = 0; i < s.ndim(); ++i) {
      if (!gone[size_t(i)]) {
        out.push_back(s[i]);
      } else if (keepdims) {
        out.push_back(removed);
      }
    }
    if (out.empty()) out.push_back(removed);
    return out;
  };
  Host out = zeros(project(x.shape, 1));
  std::vector<std::vector<double>> groups(out.values.size());
  each(x.shape, [&](const Shape& p) { groups[offset(out.shape, project(p, 0))].push_back(x.at(p)); });
  for (size_t i = 0; i < groups.size(); ++i) out.values[i] = f(groups[i]);
  return out;
}

Host along(const Host& x, int axis, FunctionRef<void(std::vector<double>&)> f) {
  if (axis < 0) axis += x.shape.ndim();
  Host out = x;
  if (x.size() == 0) return out;
  each(with(x.shape, axis, 1), [&](const Shape& p) {
    std::vector<double> run;
    for (int64_t i = 0; i < x.shape[axis]; ++i) run.push_back(x.at(with(p, axis, i)));
    f(run);
    for (int64_t i = 0; i < x.shape[axis]; ++i) out.at(with(p, axis, i)) = run[size_t(i)];
  });
  return out;
}

Host reshaped(Host x, const Shape& shape) {
  if (int64_t(x.values.size()) != shape.size()) throw std::out_of_range("another number of elements");
  x.shape = shape;
  return x;
}

double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

Reference elementwise(std::function<double(double)> f) {
  return Reference([f](const Hosts& in) {
    Host out{in[0].shape, in[0].values};
    for (double& v : out.values) v = f(v);
    return out;
  });
}

Reference broadcasting(std::function<double(double, double, DType)> f) {
  return Reference([f](const Hosts& in) {
    const int ndim = std::max(in[0].shape.ndim(), in[1].shape.ndim());
    const Host a = reshaped(in[0], padded(in[0].shape, ndim)), b = reshaped(in[1], padded(in[1].shape, ndim));
    Shape shape = a.shape;
    for (int i = 0; i < ndim; ++i) shape[i] = a.shape[i] == 1 ? b.shape[i] : a.shape[i];
    auto clamp = [](Shape p, const Shape& s) {
      for (int i = 0; i < s.ndim(); ++i) p[i] = s[i] == 1 ? 0 : p[i];
      return p;
    };
    const DType dtype = in[0].dtype.value_or(DType::float64);
    return generate(shape, [&](const Shape& p) { return f(a.at(clamp(p, a.shape)), b.at(clamp(p, b.shape)), dtype); });
  });
}

}  // namespace kaon::test
