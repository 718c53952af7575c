// The exceptions that Kaon throws at a call, and the record that travels with a failed array.
#pragma once

#include <atomic>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/block_pool.h"
#include "kaon/engine/intrusive_ptr.h"
#include "kaon/engine/run_context.h"

namespace KAON_API kaon {

// Root of Kaon's exceptions. what() reads "[operator] what is wrong: expected, got".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // The same kind of exception with more text, such as the line where the operator was pushed.
  virtual std::exception_ptr with_context(const std::string& text) const;
};

#define KAON_ERROR_KIND(Name)                                                 \
  class Name : public Error {                                                 \
   public:                                                                    \
    using Error::Error;                                                       \
    std::exception_ptr with_context(const std::string& text) const override { \
      return std::make_exception_ptr(Name(std::string(what()) + text));       \
    }                                                                         \
  }
KAON_ERROR_KIND(ShapeError);     // shapes or axes that do not fit
KAON_ERROR_KIND(TypeError);      // dtypes that do not fit or that an operator lacks
KAON_ERROR_KIND(DeviceError);    // unknown or mixed devices
KAON_ERROR_KIND(ValueError);     // an attribute, name or argument out of its range
KAON_ERROR_KIND(IndexError);     // an index outside the array
KAON_ERROR_KIND(StateError);     // a call that needs another one first: initialize, record, hybridize
KAON_ERROR_KIND(TraceError);     // something that a trace cannot record
KAON_ERROR_KIND(IoError);        // files: missing, truncated, corrupt
KAON_ERROR_KIND(MemoryError);    // no memory within the limit
KAON_ERROR_KIND(WouldDeadlock);  // a wait inside an operator that could never end
KAON_ERROR_KIND(Cancelled);      // work that was dropped because its scope was stopped

#undef KAON_ERROR_KIND

// An operator's name and where it was pushed. `name` and `scope` must live as long as the process (literals, or strings
// interned by engine::intern).
struct OpLabel {
  const char* name = "op";
  std::source_location site = std::source_location::current();
  const char* block_path = nullptr;  // path of the running block, e.g. "body.fc2"
};

// Why an array has failed: made when an operator fails, and for every operator that did not run because an input had
// failed. Immutable apart from `reported`. Without memory for more, `message` is empty and an inherited error keeps
// only one of its causes.
struct OpError : engine::RefCounted<OpError>, engine::Pooled {
  std::exception_ptr exception;  // the operator's own exception, with its push site added to Kaon's kinds
  std::string message;           // text of that exception
  OpLabel label;                 // of the operator that failed, or inherited the failure
  uint64_t sequence = 0;         // push number of the first cause
  std::vector<engine::IntrusivePtr<const OpError>>
      roots;  // of an inherited failure: its causes, in order of push; else empty
  mutable std::atomic<bool> reported{false};
  // Used by the engine's FailureLog.
  mutable const OpError* next = nullptr;
  mutable bool is_listed = false;
};

// A base of exceptions with which one event fails many operations, as the death of a rank does. Where all causes of a
// failure are of one such kind, a wait throws the first of them in place of an AggregateError: a program catches the
// kind that it expects, however many operations were under way. So does waitall().
class OneEvent {
 public:
  virtual ~OneEvent() = default;

 protected:
  OneEvent() = default;
  OneEvent(const OneEvent&) = default;
  OneEvent& operator=(const OneEvent&) = default;
};

// Thrown by waitall() with every failure that no wait has reported yet, in push order, and by a wait for an array whose
// failure has several causes. Where all are Cancelled, or of one kind of OneEvent, the first is thrown instead. `where`
// says which operator inherited them.
class AggregateError : public Error {
 public:
  explicit AggregateError(std::vector<engine::IntrusivePtr<const OpError>> errors, std::string where = {});
  const std::vector<engine::IntrusivePtr<const OpError>>& errors() const { return errors_; }
  std::exception_ptr with_context(const std::string& text) const override;

 private:
  std::vector<engine::IntrusivePtr<const OpError>> errors_;
  std::string where_;
};

namespace engine {
// " while running [dot] in body.fc2, pushed at train.cpp:42"
KAON_API std::string describe(const OpLabel& label);
// The string with this text that lives as long as the process. Thread safety: any thread.
KAON_API const char* intern(std::string_view text);

// Throws a MemoryError with this text, or a shorter one where there is no memory for it either.
[[noreturn]] KAON_API void throw_memory_error(FunctionRef<std::string()> text);

// The exception with more text if it is one of Kaon's and there is memory; else the exception itself, so that its type
// is kept.
KAON_API std::exception_ptr add_context(const std::exception_ptr& error, const std::string& text) noexcept;

[[noreturn]] KAON_API void throw_op_error(const OpError& error);  // throws an array's failure and marks it as reported

// "; inherited by [relu] in body.fc2, pushed at train.cpp:43"
KAON_API std::string describe_heir(const OpLabel& label);
// "; called in body.fc2 at train.cpp:42", of a call that pushed nothing
KAON_API std::string describe_call(const OpLabel& label);
// "train.cpp:42"
KAON_API std::string describe(const std::source_location& site);
}  // namespace engine

}  // namespace kaon
