// Device: where an array lives and where an operator runs.
#pragma once

#include <cstdint>
#include <string>

namespace kaon {

enum class DeviceType : uint8_t { cpu = 1, gpu = 2 };  // the numbers that MXNet's files use

// A value: compare, copy and pass it freely. Thread safety: immutable.
struct Device {
  DeviceType type = DeviceType::cpu;
  uint8_t index = 0;

  friend constexpr bool operator==(Device, Device) = default;
  std::string str() const { return (type == DeviceType::cpu ? "cpu(" : "gpu(") + std::to_string(int(index)) + ")"; }
};

constexpr Device cpu(int index = 0) { return {DeviceType::cpu, uint8_t(index)}; }
constexpr Device gpu(int index = 0) { return {DeviceType::gpu, uint8_t(index)}; }

}  // namespace kaon
