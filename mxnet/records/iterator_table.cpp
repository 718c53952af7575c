#include "kaon/mxnet/records/iterator_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/error.h"
#include "kaon/mxnet/records/data_iterator.h"
#include "kaon/ops/attributes.h"

namespace kaon::mxnet {

namespace {

constexpr std::string_view table =
#include "kaon/mxnet/records/iterators.inc"
    ;

constexpr struct {
  std::string_view name;
  std::unique_ptr<DataIterator> (*make)(const IteratorAttributes&);
} makers[] = {
    {"CSVIter", make_csv_iterator},
    {"ImageDetRecordIter", make_detection_iterator},
    {"ImageRecordInt8Iter", make_image_iterator},
    {"ImageRecordIter", make_image_iterator},
    {"ImageRecordIter_v1", make_image_iterator},
    {"ImageRecordUInt8Iter", make_image_iterator},
    {"ImageRecordUInt8Iter_v1", make_image_iterator},
    {"LibSVMIter", make_libsvm_iterator},
    {"MNISTIter", make_mnist_iterator},
};

std::vector<IteratorInfo> read_table() {
  std::vector<IteratorInfo> iterators;
  for (std::string_view rest = table; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.starts_with("  ")) {
      const size_t colon = line.find(": ");
      iterators.back().arguments.push_back(
          {std::string(line.substr(2, colon - 2)), std::string(line.substr(colon + 2))});
    } else if (!line.empty()) {
      iterators.emplace_back().name = line;
    }
  }
  for (IteratorInfo& i : iterators) {
    i.make = std::ranges::find(makers, i.name, [](const auto& m) { return m.name; })->make;
    for (const IteratorInfo::Argument& a : i.arguments) {
      i.c_names.push_back(a.name.c_str());
      i.c_types.push_back(a.type.c_str());
      i.c_descriptions.push_back("");
    }
  }
  return iterators;
}

}  // namespace

bool IteratorInfo::Argument::is_required() const { return type.ends_with("required"); }

std::string IteratorInfo::Argument::default_text() const {
  constexpr std::string_view mark = "default=";
  const size_t at = type.rfind(mark);
  if (at == type.npos) return "";
  std::string text = type.substr(at + mark.size());
  if (text.size() >= 2 && text.front() == '\'') text = text.substr(1, text.size() - 2);
  return text;
}

const IteratorInfo::Argument* IteratorInfo::argument(std::string_view argument_name) const {
  const auto it = std::ranges::find(arguments, argument_name, &Argument::name);
  return it == arguments.end() ? nullptr : &*it;
}

const std::vector<IteratorInfo>& all_iterators() {
  static constinit engine::MadeOnce<const std::vector<IteratorInfo>> iterators;
  return iterators.get([] { return new std::vector<IteratorInfo>(read_table()); });
}

IteratorAttributes::IteratorAttributes(const IteratorInfo& info, std::map<std::string, std::string> given)
    : info_(info), given_(std::move(given)) {
  for (const IteratorInfo::Argument& a : info_.arguments) {
    if (a.is_required() && !given_.contains(a.name)) fail(a.name, "it is required and was not given");
  }
}

const IteratorInfo::Argument& IteratorAttributes::argument(const std::string& name) const {
  const IteratorInfo::Argument* a = info_.argument(name);
  if (!a) fail(name, "the iterator has no such argument");
  return *a;
}

void IteratorAttributes::fail(const std::string& name, const std::string& why) const {
  throw ValueError(fmt::format("[{}] {}: {}", info_.name, name, why));
}

bool IteratorAttributes::has(const std::string& name) const { return info_.argument(name) != nullptr; }

std::string IteratorAttributes::text(const std::string& name) const {
  const auto given = given_.find(name);
  return given != given_.end() ? given->second : argument(name).default_text();
}

template <class T>
T IteratorAttributes::read(const std::string& name) const {
  T value{};
  const std::string given = text(name);
  if (!ops::from_text(given, value)) fail(name, fmt::format("expected {}, got '{}'", argument(name).type, given));
  return value;
}

int64_t IteratorAttributes::integer(const std::string& name) const {
  const std::string value = text(name);
  if (value == "True" || value == "False") return value == "True";
  const int64_t number = read<int64_t>(name);
  if (number < 0 && argument(name).type.find("non-negative") != std::string::npos) {
    fail(name, fmt::format("expected {}, got '{}'", argument(name).type, value));
  }
  return number;
}

double IteratorAttributes::number(const std::string& name) const { return read<double>(name); }
bool IteratorAttributes::flag(const std::string& name) const { return read<bool>(name); }
Shape IteratorAttributes::shape(const std::string& name) const { return read<Shape>(name); }

std::optional<double> IteratorAttributes::maybe_number(const std::string& name) const {
  if (text(name) == "None") return {};
  return number(name);
}

std::optional<DType> IteratorAttributes::dtype() const {
  if (text("dtype") == "None") return {};
  return read<DType>("dtype");
}

void IteratorAttributes::refuse_unless_default(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (!has(name) || !given_.contains(name)) continue;
    const std::string value = text(name), usual = argument(name).default_text();
    double a = 0, b = 0;
    const bool is_default = value == usual || (ops::from_text(value, a) && ops::from_text(usual, b) && a == b) ||
                            (value == "False" && usual == "0") || (value == "True" && usual == "1");
    if (!is_default)
      fail(name, fmt::format("Kaon does not provide it: expected its default, {}, got {}", usual, value));
  }
}

}  // namespace kaon::mxnet
