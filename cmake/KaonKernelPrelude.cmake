# KAON_KERNEL_PRELUDE_SOURCE: a source with the text of the headers that kernels compiled at run time begin with. Other
# machines have no headers, so they go into the library, in this order and without their includes.
set(headers
  engine/api.h ops/host_device.h ops/elementwise_kinds.h ops/half.h ops/dtype.h
  ops/math/scalar_math.h ops/elementwise/kernels/polygamma_value.h ops/math/convert.h ops/cuda/pack.cuh)
file(READ ${PROJECT_SOURCE_DIR}/ops/cuda/rtc_std.h KAON_KERNEL_PRELUDE)
foreach(header IN LISTS headers)
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "#include[^\n]*\n" "" text "${text}")
  string(APPEND KAON_KERNEL_PRELUDE "${text}")
endforeach()
string(REPLACE "#pragma once\n" "" KAON_KERNEL_PRELUDE "${KAON_KERNEL_PRELUDE}")
list(APPEND headers ops/cuda/rtc_std.h)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
set(KAON_KERNEL_PRELUDE_SOURCE ${PROJECT_BINARY_DIR}/kernel_prelude.cpp)
configure_file(${PROJECT_SOURCE_DIR}/ops/cuda/kernel_prelude.cpp.in ${KAON_KERNEL_PRELUDE_SOURCE} @ONLY)
