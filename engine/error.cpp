#include "kaon/engine/error.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_set>

namespace kaon {

std::exception_ptr Error::with_context(const std::string& text) const {
  return std::make_exception_ptr(Error(std::string(what()) + text));
}

const char* intern(std::string_view text) {
  // Never destroyed: labels of operations that outlive static destruction point here.
  static auto* mutex = new std::mutex;
  static auto* strings = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return strings->emplace(text).first->c_str();
}

std::string describe(const OpLabel& label) {
  std::string_view file = label.site.file_name();
  if (size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  return fmt::format(" while running [{}]{}{}, pushed at {}:{}", label.name, label.scope ? " in " : "",
                     label.scope ? label.scope : "", file, label.site.line());
}

namespace {
std::string aggregate_text(const std::vector<IntrusivePtr<const OpError>>& errors) {
  std::string text = fmt::format("{} operation{} failed:", errors.size(), errors.size() == 1 ? "" : "s");
  for (const auto& e : errors) text += "\n  " + e->message;
  return text;
}
}  // namespace

AggregateError::AggregateError(std::vector<IntrusivePtr<const OpError>> errors)
    : Error(aggregate_text(errors)), errors_(std::move(errors)) {}

std::exception_ptr AggregateError::with_context(const std::string&) const {
  return std::make_exception_ptr(*this);  // its parts carry their own context
}

}  // namespace kaon
