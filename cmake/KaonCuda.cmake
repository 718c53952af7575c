# CUDA: this release has the option and the seams, not the kernels.

if(NOT KAON_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KAON_CUDA is ${KAON_CUDA}: expected AUTO, ON or OFF")
endif()

if(NOT KAON_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    message(STATUS "CUDA ${CUDAToolkit_VERSION} found: not used yet, Kaon's CUDA kernels come with a later release")
  elseif(KAON_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KAON_CUDA is ON, but no CUDA toolkit was found. Put nvcc into PATH or set CUDAToolkit_ROOT; "
                        "or configure with -DKAON_CUDA=OFF (Kaon's CUDA kernels come with a later release).")
  else()
    message(STATUS "CUDA not found: building for the CPU (Kaon's CUDA kernels come with a later release)")
  endif()
endif()
