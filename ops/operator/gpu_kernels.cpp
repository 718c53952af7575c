#include "kaon/ops/operator/gpu_kernels.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/device/backend.h"
#include "kaon/engine/error.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {
namespace {

using Table = std::unordered_map<std::string_view, GpuKernel>;

void add(void* table, std::string_view op, const GpuKernel& kernel) { static_cast<Table*>(table)->emplace(op, kernel); }

const Table& kernels() {
  static constinit MadeOnce<const Table> table;
  return table.get([] {
    auto* made = new Table;
    using List = void (*)(AddKernel, void*);
    if (auto list = reinterpret_cast<List>(gpu_library_function("kaon_cuda_kernels"))) list(add, made);
    return made;
  });
}

}  // namespace

const GpuKernel& gpu_kernel(const OpDef& def) {
  const auto found = kernels().find(def.name());
  if (found != kernels().end()) return found->second;
  throw DeviceError(fmt::format("[{}] has no kernel for GPUs; copy the arrays with as_in_context(cpu())", def.name()));
}

}  // namespace kaon::ops
