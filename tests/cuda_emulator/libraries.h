// What the emulated cuBLASLt and cuDNN share: checks of what they are given, numbers of all types as double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device.h"

namespace kaon_emulator {

enum class Element : uint8_t { float32, float64, float16, bfloat16, tf32 };  // tf32: float32, read with less precision

constexpr size_t size_of(Element e) {
  return e == Element::float64 ? 8 : e == Element::float16 || e == Element::bfloat16 ? 2 : 4;
}

// n numbers from device memory, and back, rounded once.
std::vector<double> read_numbers(const void* from, int64_t n, Element e);
void write_numbers(const std::vector<double>& numbers, void* to, Element e);
// The factors alpha and beta: float for all types but float64.
double read_factor(const void* factor, Element e);

// Complains, naming the function and the argument, unless all these bytes are in one block of the device. Under the
// emulator's mutex.
bool is_on_device(int device, const void* pointer, size_t bytes, const char* function, const char* argument);

// Complains in `function`'s name and returns `status`. Under the emulator's mutex.
template <class Status>
Status refuse(const char* function, const std::string& why, Status status) {
  Emulator::get().complain(std::string(function) + ": " + why);
  return status;
}

// What was in a library's scratch memory is gone.
void scribble(void* workspace, size_t bytes);

}  // namespace kaon_emulator
