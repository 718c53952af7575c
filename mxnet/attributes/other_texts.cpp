#include "kaon/mxnet/attributes/other_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/custom/custom.h"

namespace kaon::mxnet {

using namespace ops;

namespace {

using OtherTexts = std::map<std::string_view, std::string>;

// Pooling takes as many strides and pads as the kernel has axes, and leaves the rest of them alone.
void cut_windows(Texts texts, OtherTexts& other) {
  Shape kernel;
  if (!from_text(find_text(texts, "kernel"), kernel) || kernel.empty()) return;
  for (const std::string_view key : {"stride", "pad"}) {
    Shape given, cut;
    if (!from_text(find_text(texts, key), given) || given.ndim() <= kernel.ndim()) continue;
    for (int i = 0; i < kernel.ndim(); ++i) cut.push_back(given[i]);
    other[key] = to_text(cut);
  }
}

// Integers from a fractional start or by a fractional step: as many as there would be numbers, from the start and by
// the step without their fractions. A step that is 0 then stays as it is, and is refused.
void cut_range(Texts texts, OtherTexts& other) {
  DType dtype = DType::float32;
  double start = 0, step = 1;
  std::optional<double> stop;
  if (!from_text(find_text(texts, "dtype"), dtype) || is_floating(dtype)) return;
  if (!from_text(find_text(texts, "start"), start)) return;
  if (const std::string_view text = find_text(texts, "step"); !text.empty() && !from_text(text, step)) return;
  if (const std::string_view text = find_text(texts, "stop"); !text.empty() && !from_text(text, stop)) return;
  if (!stop) stop = std::exchange(start, 0);
  const double first = std::trunc(start), by = std::trunc(step);
  if (by == 0 || (first == start && by == step)) return;
  const double count = std::max(0.0, std::ceil((*stop - start) / step));
  other["start"] = to_text(first);
  other["step"] = to_text(by);
  other["stop"] = to_text(first + count * by);
}

// Along an axis of another name, and by default along the first one. Kaon does not flatten the arrays, axis=None.
void name_axis(Texts texts, OtherTexts& other) {
  const std::string_view axis = find_text(texts, "axis");
  if (axis == "None") return;
  other["axis"] = other["dim"] = axis.empty() ? "0" : axis;
}

// The addresses that the program has named, which stay.
struct Addresses {
  std::mutex mutex;
  std::vector<void*> all;
  void lock() { mutex.lock(); }  // around a fork
  void unlock() { mutex.unlock(); }
};
Addresses& addresses() { return engine::ProcessWide<Addresses>::get(); }

// NumpyOp and NDArrayOp are Custom under another name.
void name_functions(const OperatorInfo& info, Texts texts, OtherTexts& other) {
  const std::string_view text = find_text(texts, "info");
  uintptr_t address = 0;
  std::from_chars(text.data(), text.data() + text.size(), address, 16);
  if (address == 0) refuse_text(info, "info", text);
  const std::scoped_lock lock(addresses().mutex);
  std::vector<void*>& all = addresses().all;
  const auto at = std::ranges::find(all, reinterpret_cast<void*>(address));
  other["info"] = std::to_string(at - all.begin());
  other["op_type"] = info.name;
  if (at == all.end()) all.push_back(reinterpret_cast<void*>(address));
}

}  // namespace

void* address_of(std::string_view text) {
  size_t i = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), i);
  const std::scoped_lock lock(addresses().mutex);
  const bool is_number = end.ec == std::errc() && end.ptr == text.data() + text.size();
  return is_number && i < addresses().all.size() ? addresses().all[i] : nullptr;
}

std::map<std::string_view, std::string> other_texts(const OperatorInfo& info, Texts texts) {
  OtherTexts other;
  if (info.name == "Pooling") cut_windows(texts, other);
  if (info.name == "_npi_concatenate") name_axis(texts, other);
  if (info.name == "_arange") cut_range(texts, other);
  if (info.def == &op::Custom::def && info.name != "Custom") name_functions(info, texts, other);
  return other;
}

}  // namespace kaon::mxnet
