// Host arrays of doubles, and the naive loops that references of operators are written with.
#pragma once

#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "kaon/engine/run_context.h"
#include "kaon/ops/dtype.h"
#include "kaon/ops/shape.h"

namespace kaon::test {

// Row-major. A reference leaves the dtype of a result open when it is that of the row.
struct Host {
  Shape shape{};
  std::vector<double> values{};
  std::optional<DType> dtype{};

  double at(const Shape& position) const;  // throws std::out_of_range
  double& at(const Shape& position);
  double operator[](size_t i) const { return values.at(i); }
  int64_t size() const { return shape.size(); }
};
using Hosts = std::vector<Host>;

Host zeros(const Shape& shape, double value = 0);

// Calls body(position) for every position of `shape`, in row-major order.
void each(const Shape& shape, engine::FunctionRef<void(const Shape&)> body);
// The array with f(position) at every position.
Host generate(const Shape& shape, engine::FunctionRef<double(const Shape&)> f);
// `position` with entry `axis` replaced, removed or inserted. Negative axes count from the end of the result.
Shape with(Shape position, int axis, int64_t value);
Shape without(const Shape& position, int axis);
Shape inserted(const Shape& position, int axis, int64_t value);
// Every result gets f(the elements over the axes, in row-major order). No axes: all of them.
Host reduced(const Host& x, const Shape& axes, bool keepdims,
             engine::FunctionRef<double(const std::vector<double>&)> f);
// The same shape; f changes the elements of each run along `axis`.
Host along(const Host& x, int axis, engine::FunctionRef<void(std::vector<double>&)> f);
Host reshaped(Host x, const Shape& shape);  // throws std::out_of_range for another number of elements

// Not a number wherever one comes in, as NumPy has it.
double larger(double a, double b);
double smaller(double a, double b);

// A reference: outputs from inputs. Made from a callable that returns one Host or several.
class Reference {
 public:
  Reference() = default;
  template <class F>
    requires std::is_invocable_v<const F&, const Hosts&> Reference(F f)
        : f_([f = std::move(f)](const Hosts& in) -> Hosts {
            if constexpr (std::is_same_v<std::invoke_result_t<const F&, const Hosts&>, Host>) {
              return {f(in)};
            } else {
              return f(in);
            }
          }) {}
    explicit operator bool() const { return bool(f_); }
    Hosts operator()(const Hosts& in) const { return f_(in); }

   private:
    std::function<Hosts(const Hosts&)> f_;
};

Reference elementwise(std::function<double(double)> f);
// Two broadcasting inputs; the third argument is their dtype.
Reference broadcasting(std::function<double(double, double, DType)> f);

}  // namespace kaon::test
