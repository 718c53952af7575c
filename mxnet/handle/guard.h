// guard: a C function's body, whose exceptions become the function's result.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "kaon/engine/error.h"

namespace kaon::mxnet {

// Keeps what MXGetLastError of this thread gives: the class that Python raises, a colon and the text.
void set_last_error(const std::exception& error) noexcept;
void set_last_error(std::string text) noexcept;
const char* last_error() noexcept;

// Calls body. 0, or -1 when it throws. No exception leaves.
template <class F>
int guard(F&& body) noexcept {
  try {
    std::forward<F>(body)();
    return 0;
  } catch (const std::exception& error) {
    set_last_error(error);
  } catch (...) {
    set_last_error(std::string("MXNetError: an exception of an unknown type"));
  }
  return -1;
}

// Throws ValueError: the function `name`, or what it is asked for, is not there.
[[noreturn]] void refuse(const char* name, const char* why);

}  // namespace kaon::mxnet
