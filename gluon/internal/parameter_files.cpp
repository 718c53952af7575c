#include "kaon/gluon/internal/parameter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include "kaon/graph/autograd.h"

namespace kaon::gluon::detail {
namespace {

// The first names of a list, for messages.
template <class Pairs>
std::string names_of(const Pairs& pairs) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(most, pairs.size()); ++i)
    text += fmt::format("{}'{}'", i ? ", " : "", pairs[i].first);
  if (pairs.empty()) text = "nothing";
  return pairs.size() > most ? fmt::format("{} and {} more", text, pairs.size() - most) : text;
}

// What a file of another tool is, by its first bytes or its name, and which function reads it, for messages. "": it is
// not known.
std::string other_reader(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) return "";
  std::string first(9, '\0');
  in.read(first.data(), std::streamsize(first.size()));
  constexpr std::string_view by_names = "gluon::load_weights (interchange/load_weights.h) reads it into a net";
  if (file.extension() == ".onnx") {
    return "it is an ONNX model: onnx::load (interchange/onnx.h) reads it as a net, and gluon::load_weights "
           "(interchange/load_weights.h) its weights into another";
  }
  if (first.starts_with("PK\x03\x04")) return fmt::format("it is an archive (.npz, .pt): {}", by_names);
  if (first.starts_with("\x93NUMPY")) return "it is NumPy's array: npy::load (interchange/numpy_files.h) reads it";
  if (first[8] == '{') return fmt::format("it is of safetensors: {}", by_names);
  return "";
}

}  // namespace

NamedArrays load_arrays(const std::filesystem::path& file) {
  try {
    return nd_file::load(file);
  } catch (const IoError& e) {
    const std::string other = other_reader(file);
    if (other.empty()) throw;
    std::rethrow_exception(e.with_context("; " + other));
  }
}

void check_unique(const NamedParameters& parameters, std::string_view caller) {
  std::unordered_map<std::string_view, const Parameter*> seen;
  for (const auto& [name, p] : parameters) {
    if (auto [it, is_new] = seen.emplace(name, &p); !is_new && !(*it->second == p)) {
      throw ValueError(
          fmt::format("[{}] two parameters are named '{}', so a file cannot tell them apart", caller, name));
    }
  }
}

void save_values(const NamedParameters& parameters, const std::filesystem::path& file, std::string_view caller) {
  check_unique(parameters, caller);
  NamedArrays arrays;
  for (const auto& [name, p] : parameters) arrays.emplace_back(name, p.reduced());
  nd_file::save(file, arrays);
}

ChosenValues choose_values(const NamedParameters& parameters, const NamedArrays& arrays,
                           const std::filesystem::path& file, std::string_view caller, const LoadOptions& options) {
  check_unique(parameters, caller);
  ChosenValues chosen;
  for (const auto& [name, array] : arrays) {
    auto it = std::find_if(parameters.begin(), parameters.end(),
                           [&, &name = name](const auto& p) { return p.first == name; });
    if (it == parameters.end()) {
      if (options.ignore_extra) continue;
      throw ValueError(fmt::format("[{}] {} holds '{}', which is none of the parameters {}", caller, file.string(),
                                   name, names_of(parameters)));
    }
    const DType own = it->second.dtype();
    const bool casts = options.cast_dtype && array.dtype() != own;
    const NDArray values = casts ? array.astype(own) : array;
    const bool keeps_dtype = casts && options.dtype_source == DTypeSource::saved;
    try {
      it->second.check_data(values);
      if (keeps_dtype) it->second.check_cast(array.dtype());
    } catch (const Error& e) {
      std::rethrow_exception(e.with_context(fmt::format(" in {}", file.string())));
    }
    chosen.emplace_back(it->second, keeps_dtype ? array : values);
  }
  for (const auto& [name, p] : parameters) {
    auto is_it = [&, &p = p](const auto& c) { return c.first == p; };
    if (!options.allow_missing && std::none_of(chosen.begin(), chosen.end(), is_it)) {
      throw ValueError(fmt::format("[{}] parameter '{}' is missing in {}, which holds {}", caller, name, file.string(),
                                   names_of(arrays)));
    }
  }
  return chosen;
}

void set_values(const ChosenValues& chosen) {
  autograd::ModeScope mode(false, false);
  std::vector<NDArray> targets, values;
  for (const auto& [p, array] : chosen) {
    if (p.is_initialized() && p.dtype() == array.dtype() && p.list_ctx().size() == 1) {
      const NDArray own = p.list_data()[0];
      if (targets.empty() || (own.device() == targets[0].device() && &own.engine() == &targets[0].engine())) {
        targets.push_back(own);
        values.push_back(array);
        continue;
      }
    }
    p.cast(array.dtype());
    p.set_data(array);
  }
  assign_all(targets, values);
}

void load_values(const NamedParameters& parameters, const NamedArrays& arrays, const std::filesystem::path& file,
                 std::string_view caller, const LoadOptions& options) {
  set_values(choose_values(parameters, arrays, file, caller, options));
}

}  // namespace kaon::gluon::detail
