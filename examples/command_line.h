// What the command lines of the example programs share.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace examples {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A number from `low` to `high`, or UsageError.
template <class T>
T parse_number(std::string_view option, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high)) {
    throw UsageError(fmt::format("{}: expected a number from {} to {}, got '{}'", option, low, high, text));
  }
  return value;
}

// A whole main(): parse() gives options with a field `help`, run(options) does the work. Returns 0; 2 for a bad option;
// 1 for any other failure, which is printed.
template <class Parse, class Run>
int run_program(const char* name, const char* usage, Parse parse, Run run) {
  try {
    const auto options = parse();
    if (options.help) {
      fmt::print("{}", usage);
    } else {
      run(options);
    }
    return 0;
  } catch (const UsageError& e) {
    fmt::print(stderr, "{}: {}\n\n{}", name, e.what(), usage);
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace examples
