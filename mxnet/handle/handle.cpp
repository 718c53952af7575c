#include "kaon/mxnet/handle/handle.h"

#include <fmt/format.h>

#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/ops/attributes.h"

namespace kaon::mxnet {

Context Context::numbered(int kind, int index) {
  if (kind != 1 && kind != 2 && kind != 3 && kind != 5) {
    throw ValueError(
        fmt::format("expected the device type 1 (cpu), 2 (gpu), 3 (cpu_pinned) or 5 (cpu_shared), got {}", kind));
  }
  const Context context{ContextKind(kind), index < 0 ? 0 : index};
  context.device();  // throws for an index that is too large
  return context;
}

Context Context::named(std::string_view text) {
  const size_t open = text.find('(');
  const std::string_view kind = text.substr(0, open);
  int64_t index = 0;
  const bool has_index =
      open != text.npos && text.ends_with(')') && ops::from_text(text.substr(open + 1, text.size() - open - 2), index);
  constexpr std::pair<std::string_view, ContextKind> kinds[] = {{"cpu", ContextKind::cpu},
                                                                {"gpu", ContextKind::gpu},
                                                                {"cpu_pinned", ContextKind::cpu_pinned},
                                                                {"cpu_shared", ContextKind::cpu_shared}};
  for (const auto& [name, number] : kinds) {
    if (name == kind && has_index) return numbered(int(number), int(index));
  }
  throw ValueError(fmt::format("expected a context like cpu(0), got '{}'", text));
}

ArrayObject::ArrayObject(std::shared_ptr<SparseArray> array, Context where)
    : sparse(std::move(array)), context(where) {}

int ArrayObject::storage_number() const { return sparse ? int(sparse->storage) : array.defined() ? 0 : -1; }

ArrayObject& array_of(void* handle) {
  if (!handle) throw ValueError("the handle of an array is null");
  return *static_cast<ArrayObject*>(handle);
}

const NDArray& dense_of(const ArrayObject& object, const char* what) {
  if (object.array.defined()) return object.array;
  throw ValueError(fmt::format("[{}] expected a dense array, got {}", what,
                               object.sparse ? "a sparse one" : "one without shape and values"));
}

std::vector<ArrayObject*> arrays_of(void* const* handles, int count) {
  std::vector<ArrayObject*> arrays;
  for (int i = 0; i < count; ++i) arrays.push_back(&array_of(handles[i]));
  return arrays;
}

}  // namespace kaon::mxnet
