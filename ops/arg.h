// Arg: an array or a number as an operator's argument, with the line of the call.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <source_location>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"

namespace KAON_API kaon {

// A number as an argument: kept as double. Throws ValueError for an integer that needs more than 53 bits.
class Number {
 public:
  template <class N>
    requires std::convertible_to<N, double> Number(N number) : value_(double(number)) {
      if constexpr (std::integral<N> && sizeof(N) == 8) {
        const uint64_t size = number < 0 ? 0 - uint64_t(number) : uint64_t(number);
        if (size != 0 && std::bit_width(size) - std::countr_zero(size) > 53) {
          throw ValueError("[number] " + std::to_string(number) +
                           " needs more than 53 bits: give it as an array, nd.array(...)");
        }
      }
    }
    operator double() const { return value_; }

   private:
    double value_;
};

// Made implicitly at the call, so the location is the user's line. Borrows the array: use it in parameter
// lists only. Trivially destructible, so safe inside a co_await expression.
template <class A>
class Arg {
 public:
  Arg(const A& array, std::source_location site = std::source_location::current()) : array_(&array), site_(site) {}
  template <class N>
    requires(std::integral<N> || std::floating_point<N>)
  Arg(N number, std::source_location site = std::source_location::current()) : number_(Number(number)), site_(site) {}

  bool is_number() const { return array_ == nullptr; }
  const A& array() const { return *array_; }
  double number() const { return number_; }
  const std::source_location& site() const { return site_; }

 private:
  const A* array_ = nullptr;
  double number_ = 0;
  std::source_location site_;
};

// The same for arrays only: most operators take these.
template <class A>
class In {
 public:
  In(const A& array, std::source_location site = std::source_location::current()) : array_(&array), site_(site) {}
  const A& array() const { return *array_; }
  const std::source_location& site() const { return site_; }

 private:
  const A* array_;
  std::source_location site_;
};

}  // namespace kaon
