// CUDA's small vectors and dim3, aligned as CUDA aligns them, and their make_ functions.
#pragma once

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define KAON_EMULATOR_VECTORS(scalar, name, align2, align4)                            \
  struct name##1 {                                                                     \
    scalar x;                                                                          \
  };                                                                                   \
  struct alignas(align2) name##2 {                                                     \
    scalar x, y;                                                                       \
  };                                                                                   \
  struct name##3 {                                                                     \
    scalar x, y, z;                                                                    \
  };                                                                                   \
  struct alignas(align4) name##4 {                                                     \
    scalar x, y, z, w;                                                                 \
  };                                                                                   \
  constexpr name##1 make_##name##1(scalar x) { return {x}; }                           \
  constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }              \
  constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

KAON_EMULATOR_VECTORS(signed char, char, 2, 4)
KAON_EMULATOR_VECTORS(unsigned char, uchar, 2, 4)
KAON_EMULATOR_VECTORS(short, short, 4, 8)
KAON_EMULATOR_VECTORS(unsigned short, ushort, 4, 8)
KAON_EMULATOR_VECTORS(int, int, 8, 16)
KAON_EMULATOR_VECTORS(unsigned, uint, 8, 16)
KAON_EMULATOR_VECTORS(long long, longlong, 16, 16)
KAON_EMULATOR_VECTORS(unsigned long long, ulonglong, 16, 16)
KAON_EMULATOR_VECTORS(float, float, 8, 16)
KAON_EMULATOR_VECTORS(double, double, 16, 16)
#undef KAON_EMULATOR_VECTORS
