// check_op: an operator against a naive reference, its gradient against the numeric one, the hybridized against the
// imperative run, and its attributes against themselves after a trip through a file.
#pragma once

#include <string>
#include <vector>

#include "kaon/ops/all_ops.h"
#include "kaon/ops/operator/op_attributes.h"
#include "kaon/tests/support/reference.h"

namespace kaon::test {

using namespace ops;

// Where the values of an input come from. Integer dtypes get small integers of the same kind.
enum class Fill : uint8_t {
  normal,     // around 0
  positive,   // 0.3 to 2.5
  unit,       // -0.9 to 0.9
  above_one,  // 1.3 to 3
  nonzero,    // 0.3 to 2, either sign
  distinct,   // no two are equal
  integers,   // [low, high)
  given
};

struct Input {
  Shape shape{};
  Fill fill = Fill::normal;
  double low = 0, high = 0;
  std::vector<double> values{};
  std::optional<DType> dtype{};  // not given: the dtype that the row is checked for
  bool differentiable = true;
};

inline Input in(const Shape& shape, Fill fill = Fill::normal) { return {.shape = shape, .fill = fill}; }
inline Input in(const Shape& shape, std::vector<double> values) {
  return {.shape = shape, .fill = Fill::given, .values = std::move(values)};
}
// Numbers that no gradient flows to: [low, high) of a dtype that does not follow the row.
inline Input index(const Shape& shape, double low, double high, DType dtype = DType::float32) {
  return {.shape = shape, .fill = Fill::integers, .low = low, .high = high, .dtype = dtype, .differentiable = false};
}
inline Input index(const Shape& shape, std::vector<double> values, DType dtype = DType::float32) {
  return {.shape = shape, .fill = Fill::given, .values = std::move(values), .dtype = dtype, .differentiable = false};
}
inline Input constant(Input input) {
  input.differentiable = false;
  return input;
}

constexpr uint32_t dtype_bit(DType t) { return 1u << int(t); }
// Sets of dtypes. The call must refuse all others with a TypeError.
inline constexpr uint32_t floats =
    dtype_bit(DType::float32) | dtype_bit(DType::float64) | dtype_bit(DType::float16) | dtype_bit(DType::bfloat16);
inline constexpr uint32_t unsigned_integers =
    dtype_bit(DType::uint8) | dtype_bit(DType::uint16) | dtype_bit(DType::uint32) | dtype_bit(DType::uint64);
inline constexpr uint32_t integers = unsigned_integers | dtype_bit(DType::int8) | dtype_bit(DType::int16) |
                                     dtype_bit(DType::int32) | dtype_bit(DType::int64);
inline constexpr uint32_t numbers = floats | integers;
inline constexpr uint32_t every_dtype = numbers | dtype_bit(DType::boolean);

struct RowOptions {
  uint32_t dtypes = floats;
  uint32_t tried = every_dtype;  // of these; a row with NaN is for floats alone, though the operator takes integers
  double loosen = 1;             // factor on the tolerance of values, for operators that round more than once
  double loosen_gradient = 1;    // and of gradients
  double tolerance = 1e-9;       // in float64; more where the reference itself is rough
  bool training = false;
  bool differentiate = true;  // false: the gradient is not compared
  bool on_gpu = true;         // false: there is no kernel for GPUs
  bool infers = true;         // false: the shapes of the weights are one choice of several
  bool refused = false;       // the attributes are not implemented: the call throws ValueError
  // The gradients of the inputs from (inputs, heads), where they are not the derivative: SoftmaxOutput, BlockGrad.
  std::function<Hosts(const Hosts& inputs, const Hosts& heads)> gradient{};
  // Instead of a reference: looks at the outputs of a random operator, returns what is wrong. Every run of a row draws
  // the same numbers.
  std::function<std::string(const Hosts& inputs, const Hosts& outputs)> inspect{};
};

// One case: an operator with these attributes on these inputs. Results are its outputs, then the inputs that it
// updates.
class Row {
 public:
  template <class T>
  Row(const T& op, std::vector<Input> inputs, Reference reference, RowOptions options = {})
      : def(&T::def),
        attrs(T::def, &op),
        inputs(std::move(inputs)),
        reference(std::move(reference)),
        options(std::move(options)) {}

  const OpDef* def;
  Attributes attrs;
  std::vector<Input> inputs;
  Reference reference;
  RowOptions options;

  bool accepts(DType t) const { return (options.dtypes & dtype_bit(t)) != 0; }
  bool follows_dtype() const;  // has an input without a dtype of its own
  std::string str() const;     // "softmax axis=1 (2, 3)"
};
using Rows = std::vector<Row>;

// Each returns what is wrong, "" when nothing is.
std::string check_values(const Row& row);     // for every dtype, which runs or is refused
std::string check_gradients(const Row& row);  // numeric, of reference and operator; grad_req write and add; every dtype
std::string check_hybridized(const Row& row);  // bit-equal with {.exact}, within the bounds without
std::string check_attributes(const Row& row);  // to_text and back, tojson and load_json
std::string check_inference(const Row& row);   // shapes of weights follow from the data's
std::string check_devices(const Row& row);     // results and gradients on gpu(0), for every dtype
std::string check_threads(const Row& row);     // bit-equal at 0, 1 and 2 engine threads

// What check(row) returns, or that it throws.
std::string unless_thrown(std::string (*check)(const Row&), const Row& row);

// All of these but check_devices and check_threads, as Catch2 checks.
void check_op(const Row& row);
void check_ops(const Rows& rows);

}  // namespace kaon::test
