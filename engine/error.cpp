#include "kaon/engine/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <typeinfo>
#include <unordered_set>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/operation/one_event_failures.h"

namespace kaon {

using namespace engine;

std::exception_ptr Error::with_context(const std::string& text) const {
  return std::make_exception_ptr(Error(std::string(what()) + text));
}

namespace {
std::exception_ptr longer(const Error& plain, const std::string& text, const std::exception_ptr& otherwise) {
  const std::exception_ptr made = plain.with_context(text);
  try {
    std::rethrow_exception(made);
  } catch (const Error& e) {
    return typeid(e) == typeid(plain) ? made : otherwise;  // a user's kind that has no with_context of its own
  }
}

// A program in another language does not say its lines.
bool is_known(const std::source_location& site) { return site.line() != 0; }

std::string place_of(const OpLabel& label) {
  std::string text =
      fmt::format("[{}]{}{}", label.name, label.block_path ? " in " : "", label.block_path ? label.block_path : "");
  if (is_known(label.site)) text += ", pushed at " + engine::describe(label.site);
  return text;
}

std::string aggregate_text(const std::vector<IntrusivePtr<const OpError>>& errors) {
  std::string text = fmt::format("{} operation{} failed:", errors.size(), errors.size() == 1 ? "" : "s");
  for (const auto& e : errors) {
    text += "\n  " + (e->message.empty() ? "no memory for the text of a failure" + describe(e->label) : e->message);
  }
  return text;
}
}  // namespace

AggregateError::AggregateError(std::vector<IntrusivePtr<const OpError>> errors, std::string where)
    : Error(aggregate_text(errors) + where), errors_(std::move(errors)), where_(std::move(where)) {}

std::exception_ptr AggregateError::with_context(const std::string& text) const {
  return std::make_exception_ptr(AggregateError(errors_, where_ + text));
}

}  // namespace kaon

namespace kaon::engine {

std::exception_ptr add_context(const std::exception_ptr& error, const std::string& text) noexcept {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const Error& plain) {
      return longer(plain, text, error);
    }
  } catch (...) {
    return error;
  }
}

namespace {
const MemoryError& short_memory_error() {
  static const auto* const error = new MemoryError("[Storage] out of memory, also for a text that says more");
  return *error;
}
[[maybe_unused]] const MemoryError& g_made_early = short_memory_error();  // while there is memory
}  // namespace

void throw_memory_error(FunctionRef<std::string()> text) {
  try {
    throw MemoryError(text());
  } catch (const std::bad_alloc&) {
  }
  throw MemoryError(short_memory_error());  // copying one takes no memory
}

namespace {
struct Interned : WithMutex {
  std::unordered_set<std::string> strings;
};
}  // namespace

const char* intern(std::string_view text) {
  Interned& all = ProcessWide<Interned>::get();
  std::lock_guard lock(all);
  return all.strings.emplace(text).first->c_str();
}

std::string describe(const OpLabel& label) { return " while running " + place_of(label); }

std::string describe_call(const OpLabel& label) {
  std::string text;
  if (label.block_path) text += fmt::format(" in {}", label.block_path);
  if (is_known(label.site)) text += " at " + describe(label.site);
  return text.empty() ? text : "; called" + text;
}

std::string describe(const std::source_location& site) {
  if (!is_known(site)) return "an unknown line";
  std::string_view file = site.file_name();
  if (size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, site.line());
}

std::string describe_heir(const OpLabel& label) { return "; inherited by " + place_of(label); }

namespace {
// The kind of an exception with which one event fails many operations; null for others.
const std::type_info* kind_of_event(const OpError& error) {
  try {
    std::rethrow_exception(error.exception);
  } catch (const Cancelled&) {  // dropped work, however many operations it was
    return &typeid(Cancelled);
  } catch (const OneEvent& e) {
    return &typeid(e);
  } catch (...) {
    return nullptr;
  }
}
}  // namespace

bool are_one_event(std::span<const IntrusivePtr<const OpError>> errors) {
  if (errors.empty()) return false;
  const std::type_info* const kind = kind_of_event(*errors.front());
  return kind && std::all_of(errors.begin() + 1, errors.end(), [&](const auto& e) {
           const std::type_info* const other = kind_of_event(*e);
           return other && *other == *kind;
         });
}

void throw_op_error(const OpError& error) {
  if (error.roots.empty()) {
    error.reported.store(true, std::memory_order_relaxed);
    std::rethrow_exception(error.exception);
  }
  for (const auto& r : error.roots) r->reported.store(true, std::memory_order_relaxed);
  std::exception_ptr failure = error.roots.front()->exception;
  try {
    const std::string heir = describe_heir(error.label);
    const bool one = error.roots.size() == 1 || are_one_event(error.roots);
    failure = one ? add_context(failure, heir) : std::make_exception_ptr(AggregateError(error.roots, heir));
  } catch (const std::bad_alloc&) {  // throws the first cause alone
  }
  std::rethrow_exception(failure);
}

}  // namespace kaon::engine
