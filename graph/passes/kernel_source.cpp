// From a group of pointwise nodes to the kernel that computes it on a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/ir/rewrite.h"
#include "kaon/graph/passes/kernel_expression.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/graph/passes/pointwise_target.h"
#include "kaon/graph/plan_ops/fused_kernel.h"
#include "kaon/ops/fused/vector_program.h"
#include "kaon/ops/operator/cuda_expression.h"

namespace kaon::graph::passes {
namespace {

// MemoryBudget from the registers of a thread.
constexpr size_t max_inputs = 24, max_outputs = 12, max_members = 64;

// A value of the group or one that it reads.
struct Operand {
  ValueId id;
  Shape stride{};  // as strides_of()
  bool inside = false;
  uint32_t uses = 0;  // by members
  std::string name{};
};

struct Arrays {
  std::vector<Operand> operands;  // the members' results, in their order, then their inputs
  std::vector<uint32_t> inputs;   // numbers of operands
  std::vector<uint32_t> outputs;  // the last one first
  bool takes_over = false;        // output 0 the memory of input 0
};

bool is_kernel_operator(const Graph& g, const Node& n) {
  if (!n.op || n.outputs.size() != 1 || n.inputs.empty()) return false;
  const OpTraits& traits = n.op->traits_of(n.attrs.get());
  const bool broadcasts = vector_forms(*n.op, n.attrs.get()).broadcasts;
  if (!(traits.pointwise || broadcasts) || traits.random || traits.mutates || traits.mode_dependent) return false;
  const Shape& shape = n.outputs[0].shape;
  const Layout layout = n.layouts.empty() ? Layout::row_major : n.layouts[0];
  if (shape.size() == 0) return false;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  // repeated inputs need row-major dimensions
  const bool repeats = layout == Layout::row_major && broadcasts;
  for (ValueId v : n.inputs) {
    if (g.layout(v) != layout || (g.meta(v).shape != shape && !repeats)) return false;
    names.emplace_back("x");
    dtypes.push_back(g.meta(v).dtype);
  }
  return kernel_expression(n, names, dtypes).has_value();
}

Operand* find(std::vector<Operand>& operands, ValueId v, const Shape& stride) {
  const auto found =
      std::find_if(operands.begin(), operands.end(), [&](const Operand& o) { return o.id == v && o.stride == stride; });
  return found == operands.end() ? nullptr : &*found;
}

std::optional<Arrays> arrays_of(const Graph& g, std::span<const uint32_t> members,
                                const std::vector<std::vector<uint32_t>>& uses) {
  if (members.size() > max_members) return {};
  Arrays a;
  for (uint32_t m : members) a.operands.push_back({.id = {m, 0}, .inside = true});
  for (uint32_t m : members) {
    for (ValueId v : g.nodes[m].inputs) {
      const Shape stride = strides_of(g, g.nodes[m], v);
      if (!find(a.operands, v, stride)) a.operands.push_back({.id = v, .stride = stride});
      ++find(a.operands, v, stride)->uses;
    }
  }
  const auto is_used_elsewhere = [&](const Operand& o) { return uses[o.id.node][o.id.output] > o.uses; };
  for (uint32_t i = 0; i < a.operands.size(); ++i) {
    const Operand& o = a.operands[i];
    if (!o.inside) {
      a.inputs.push_back(i);
    } else if (is_used_elsewhere(o)) {
      a.outputs.insert(a.outputs.begin(), i);
    }
  }
  if (a.inputs.size() > max_inputs || a.outputs.size() > max_outputs || a.outputs.empty()) return {};
  // A thread reads all its elements before it writes, so an input that is read only here may be overwritten.
  const DType dtype = g.meta(a.operands[a.outputs[0]].id).dtype;
  const auto dying = std::find_if(a.inputs.begin(), a.inputs.end(), [&](uint32_t i) {
    const Operand& o = a.operands[i];
    return o.stride.empty() && g.nodes[o.id.node].op && !is_used_elsewhere(o) && g.meta(o.id).dtype == dtype;
  });
  a.takes_over = dying != a.inputs.end();
  if (a.takes_over) std::rotate(a.inputs.begin(), dying, dying + 1);
  return a;
}

// The offset of element i of the whole in an input that repeats: its dimensions merged, the repeated ones left out.
std::string offset_text(const Shape& whole, const Shape& stride, std::string_view i) {
  struct Dimension {
    int64_t size, stride, inner;  // inner: elements of the whole in one step of it
  };
  std::vector<Dimension> dims;  // the last one first
  int64_t inner = 1;
  for (int d = whole.ndim(); d-- > 0;) {
    if (whole[d] == 1) continue;
    if (!dims.empty() && stride[d] == dims.back().stride * dims.back().size) {
      dims.back().size *= whole[d];
    } else {
      dims.push_back({whole[d], stride[d], inner});
    }
    inner *= whole[d];
  }
  std::string text;
  for (const Dimension& d : dims) {
    if (d.stride == 0) continue;
    std::string term(i);
    if (d.inner > 1) term = fmt::format("{} / {}", term, d.inner);
    if (d.inner * d.size < inner) term = fmt::format("{} % {}", term, d.size);
    if (d.stride > 1) term = fmt::format("({}) * {}", term, d.stride);
    text += (text.empty() ? "" : " + ") + term;
  }
  return text.empty() ? "0" : text;
}

// The last dimension that is not 1: consecutive elements are in a row of it.
int last_dimension(const Shape& shape) {
  int d = shape.ndim();
  while (d > 1 && shape[d - 1] == 1) --d;
  return d - 1;
}

class Writer {
 public:
  Writer(const Graph& g, std::span<const uint32_t> members, Arrays arrays)
      : g_(g), members_(members), a_(std::move(arrays)), whole_(g.meta({members[0], 0}).shape) {}

  KernelSource write() {
    size_t widest = 1;
    for (const Operand& o : a_.operands) {
      if (o.stride.empty()) widest = std::max(widest, size_of(g_.meta(o.id).dtype));
    }
    source_.pack = int(std::min<size_t>(8, 16 / widest));
    const int last = last_dimension(whole_);
    rows_ = whole_.ndim() > 0 && whole_[last] % source_.pack == 0;
    parameters_ = "int64_t n, bool aligned";
    for (size_t k = 0; k < a_.inputs.size(); ++k) add_input(a_.operands[a_.inputs[k]], k, last);
    std::string packs;
    for (size_t k = 0; k < a_.outputs.size(); ++k) {
      const DType dtype = g_.meta(a_.operands[a_.outputs[k]].id).dtype;
      source_.outputs.push_back(dtype);
      parameters_ += fmt::format(", {}* y{}", cuda_element_type(dtype), k);
      packs += fmt::format("    cuda::Pack<{}, N> q{};\n", cuda_element_type(dtype), k);
      stores_ += fmt::format("    cuda::store_pack(y{0}, at, n, whole, q{0});\n", k);
    }
    for (size_t m = 0; m < members_.size(); ++m) add_member(g_.nodes[members_[m]], m);
    for (size_t k = 0; k < a_.outputs.size(); ++k) {
      const Operand& o = a_.operands[a_.outputs[k]];
      body_ += fmt::format("      q{}.v[j] = {}({});\n", k, cuda_element_type(source_.outputs[k]), o.name);
    }
    source_.text = fmt::format(R"(using namespace kaon;
using namespace kaon::ops;
extern "C" __global__ void __launch_bounds__(256) fused({}) {{
  constexpr int N = {};
  using Index = {};
  const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  for (int64_t at = first; at < n; at += int64_t(gridDim.x) * blockDim.x * N) {{
    const bool whole = aligned && at + N <= n;
{}{}#pragma unroll
    for (int j = 0; j < N; ++j) {{
{}    }}
{}  }}
}}
)",
                               parameters_, source_.pack, whole_.size() < int64_t(1) << 31 ? "uint32_t" : "uint64_t",
                               loads_, packs, body_, stores_);
    return std::move(source_);
  }

 private:
  void add_input(Operand& o, size_t k, int last) {
    const DType dtype = g_.meta(o.id).dtype;
    const char *type = cuda_element_type(dtype), *value = cuda_value_type(dtype);
    parameters_ += fmt::format(", const {}* x{}", type, k);
    o.name = fmt::format("a{}", k);
    const bool dense = o.stride.empty();
    const bool in_row = !dense && rows_ && o.stride[last] == 1, one = !dense && rows_ && o.stride[last] == 0;
    source_.inputs.push_back(dtype);
    source_.packed.push_back(dense || in_row);
    if (dense) {
      loads_ += fmt::format("    const cuda::Pack<{0}, N> p{1} = cuda::load_pack<N>(x{1}, at, n, whole);\n", type, k);
    } else if (in_row) {
      loads_ += fmt::format(
          "    const Index o{1} = {2};\n"
          "    const cuda::Pack<{0}, N> p{1} = cuda::load_pack<N>(x{1}, o{1}, int64_t(o{1}) + N, aligned);\n",
          type, k, offset_text(whole_, o.stride, "Index(at)"));
    } else if (one) {
      loads_ += fmt::format("    const {0} p{1} = x{1}[{2}];\n", type, k, offset_text(whole_, o.stride, "Index(at)"));
    }
    const std::string from = dense || in_row ? fmt::format("p{}.v[j]", k)
                             : one           ? fmt::format("p{}", k)
                                             : fmt::format("x{}[{}]", k, offset_text(whole_, o.stride, "i"));
    if (!dense && !in_row && !one && !has_index_) {
      has_index_ = true;
      body_ = "      const Index i = Index(at + j < n ? at + j : n - 1);\n" + body_;
    }
    body_ += fmt::format("      const {} {} = {}({});\n", value, o.name, value, from);
  }

  void add_member(const Node& n, size_t m) {
    std::vector<std::string> names;
    std::vector<DType> dtypes;
    for (ValueId v : n.inputs) {
      names.push_back(find(a_.operands, v, strides_of(g_, n, v))->name);
      dtypes.push_back(g_.meta(v).dtype);
    }
    Operand& o = a_.operands[m];
    o.name = fmt::format("v{}", m);
    body_ += fmt::format("      const {} {} = {};  // {}\n", cuda_value_type(n.outputs[0].dtype), o.name,
                         *kernel_expression(n, names, dtypes), n.op->name());
  }

  const Graph& g_;
  std::span<const uint32_t> members_;
  Arrays a_;
  const Shape whole_;
  KernelSource source_;
  bool rows_ = false;  // all elements of a pack are in one row
  bool has_index_ = false;
  std::string parameters_, loads_, body_, stores_;
};

constexpr PointwiseTarget kernels{
    .computes = is_kernel_operator,
    .reduces = [](const Graph&, const Node&) { return false; },
    .num_outputs = [](const Graph& g, std::span<const uint32_t> members,
                      const std::vector<std::vector<uint32_t>>& uses) -> std::optional<size_t> {
      const auto arrays = arrays_of(g, members, uses);
      return arrays ? std::optional(arrays->outputs.size()) : std::nullopt;
    },
    .fuse =
        [](const Graph& g, std::span<const uint32_t> members, const std::vector<std::vector<uint32_t>>& uses) {
          const Arrays a = *arrays_of(g, members, uses);
          const op::FusedKernel op{.source = KernelSource::intern(Writer(g, members, a).write()),
                                   .shape = g.meta({members[0], 0}).shape,
                                   .takes_over = a.takes_over};
          FusedGroup group{&op::FusedKernel::def, Attributes(op::FusedKernel::def, &op), {}, {}};
          for (uint32_t i : a.inputs) group.inputs.push_back(a.operands[i].id);
          for (uint32_t i : a.outputs) group.outputs.push_back(a.operands[i].id);
          return group;
        }};

}  // namespace

Graph fuse_kernels(Graph g) { return fuse_groups(g, kernels); }

}  // namespace kaon::graph::passes
