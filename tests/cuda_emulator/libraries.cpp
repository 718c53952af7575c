#include "libraries.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/ops/dtype.h"
#include "memory.h"

namespace kaon_emulator {
namespace {

template <class T>
std::vector<double> read_as(const void* from, int64_t n) {
  const T* at = static_cast<const T*>(from);
  return std::vector<double>(at, at + n);
}
template <class T>
void write_as(const std::vector<double>& numbers, void* to) {
  T* at = static_cast<T*>(to);
  for (double v : numbers) {
    if constexpr (sizeof(T) == 2) {
      *at++ = T(float(v));
    } else {
      *at++ = T(v);
    }
  }
}

// To 10 bits of mantissa, halves away from 0.
double as_tf32(double v) {
  float f = float(v);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~uint32_t(0x1fff);
  std::memcpy(&f, &bits, 4);
  return f;
}

}  // namespace

std::vector<double> read_numbers(const void* from, int64_t n, Element e) {
  switch (e) {
    case Element::float64: return read_as<double>(from, n);
    case Element::float16: return read_as<kaon::float16>(from, n);
    case Element::bfloat16: return read_as<kaon::bfloat16>(from, n);
    case Element::float32: return read_as<float>(from, n);
    case Element::tf32: break;
  }
  std::vector<double> numbers = read_as<float>(from, n);
  for (double& v : numbers) v = as_tf32(v);
  return numbers;
}

void write_numbers(const std::vector<double>& numbers, void* to, Element e) {
  switch (e) {
    case Element::float64: return write_as<double>(numbers, to);
    case Element::float16: return write_as<kaon::float16>(numbers, to);
    case Element::bfloat16: return write_as<kaon::bfloat16>(numbers, to);
    default: return write_as<float>(numbers, to);
  }
}

double read_factor(const void* factor, Element e) {
  return e == Element::float64 ? *static_cast<const double*>(factor) : *static_cast<const float*>(factor);
}

bool is_on_device(int device, const void* pointer, size_t bytes, const char* function, const char* argument) {
  bool is_wrong = false;
  const Block* block = Memory::get().find(pointer, bytes, is_wrong);
  if (block && block->device == device) return true;
  Emulator::get().complain(fmt::format("{}: {}: {} bytes at {} are not in one block of device {}", function, argument,
                                       bytes, pointer, device));
  return false;
}

void scribble(void* workspace, size_t bytes) {
  if (bytes) std::memset(workspace, 0xcb, bytes);
}

}  // namespace kaon_emulator
