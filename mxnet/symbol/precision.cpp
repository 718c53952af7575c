// Mixed precision: symbols with casts to 16-bit floats.
#include <fmt/format.h>

#include <set>

#include "kaon/gluon/util/amp.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/node/operator_node.h"
#include "kaon/mxnet/symbol/symbol_object.h"
#include "kaon/ops/operator/registry.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

// The names of a list that Kaon has. MXNet's lists name operators that Kaon lacks, of which the symbol has none, and
// older ones that are the same here (Convolution_v1), in lists of their own: those are left out.
std::vector<std::string> known_operators(const char** names, uint32_t count) {
  std::vector<std::string> known;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name = names[i];
    if (ops::find_op(name) && !name.ends_with("_v1")) known.emplace_back(name);
  }
  return known;
}

}  // namespace

// Kaon's own list says which operators take the widest of their inputs' dtypes: it is MXNet's. All inputs but the
// parameters are data; MXNet's package says the same twice, by `arg_names` too.
int MXReducePrecisionSymbol(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle, uint32_t, const int*,
                            uint32_t num_ind_ptr, const int* ind_ptr, const int* target_dtype,
                            const int cast_optional_params, const uint32_t num_target_dtype_op_names,
                            const uint32_t num_fp32_op_names, const uint32_t,
                            const uint32_t num_conditional_fp32_op_names, const uint32_t num_excluded_symbols,
                            const uint32_t num_model_params, const char** target_dtype_op_names,
                            const char** fp32_op_names, const char**, const char** conditional_fp32_op_names,
                            const char** excluded_symbols, const char** conditional_param_names,
                            const char** conditional_param_vals, const char** model_param_names, const char**) {
  return guard([&] {
    const Symbol& symbol = symbol_of(sym_handle).symbol;
    amp::ConvertOptions options{.target_dtype = DType(*target_dtype),
                                .target_dtype_ops = known_operators(target_dtype_op_names, num_target_dtype_op_names),
                                .fp32_ops = known_operators(fp32_op_names, num_fp32_op_names),
                                .conditional_fp32_ops = std::vector<amp::ConditionalOp>(),
                                .excluded_sym_names = {excluded_symbols, excluded_symbols + num_excluded_symbols},
                                .cast_optional_params = cast_optional_params != 0};
    if (num_ind_ptr != num_conditional_fp32_op_names + 1) {
      throw ValueError(fmt::format("[MXReducePrecisionSymbol] expected {} offsets of values for {} conditions, got {}",
                                   num_conditional_fp32_op_names + 1, num_conditional_fp32_op_names, num_ind_ptr));
    }
    for (uint32_t i = 0; i < num_conditional_fp32_op_names; ++i) {
      if (!ops::find_op(conditional_fp32_op_names[i])) continue;
      options.conditional_fp32_ops->push_back(
          {conditional_fp32_op_names[i],
           conditional_param_names[i],
           {conditional_param_vals + ind_ptr[i], conditional_param_vals + ind_ptr[i + 1]}});
    }
    const std::set<std::string> parameters(model_param_names, model_param_names + num_model_params);
    std::vector<std::string> data;
    check_composed(symbol);
    for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
      if (!is_operator(*n) && !parameters.contains(n->name)) data.push_back(n->name);
    }
    *ret_sym_handle = new SymbolObject(amp::convert_symbol(symbol, options, data));
  });
}
