# CUDA: libkaon_cuda.so from the folders named cuda and the .cu files beside the operators; a process opens it when it
# first asks for a GPU.

# What it is built from: sources of the folders named cuda, and kernels.
function(kaon_cuda_sources sources kernels)
  file(GLOB_RECURSE cpp CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/*.cpp ${PROJECT_SOURCE_DIR}/ops/*.cpp
                                          ${PROJECT_SOURCE_DIR}/graph/*.cpp)
  list(FILTER cpp INCLUDE REGEX "/cuda/[^/]+$")
  file(GLOB_RECURSE cu CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.cu ${PROJECT_SOURCE_DIR}/graph/*.cu)
  set(${sources} ${cpp} PARENT_SCOPE)
  set(${kernels} ${cu} PARENT_SCOPE)
endfunction()

kaon_auto_option(KAON_CUDA CUDA)
if(KAON_CUDA STREQUAL "OFF")
  return()
endif()

find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  if(KAON_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KAON_CUDA is ON, but no CUDA toolkit was found. Put nvcc into PATH or set CUDAToolkit_ROOT; "
                        "or configure with -DKAON_CUDA=OFF.")
  endif()
  message(STATUS "CUDA not found: building for the CPU")
  return()
endif()
message(STATUS "CUDA ${CUDAToolkit_VERSION}: building libkaon_cuda.so")

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "Architectures of GPUs to compile for")
endif()
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "The host compiler of nvcc")
set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "nvcc")
if(KAON_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${KAON_CCACHE})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows nvcc's C++17 only
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

# kaon_cuda_units(list): several kernels a source, as CMake's unity build does for C++: of three seconds that
# nvcc takes over one kernel, most go to headers.
function(kaon_cuda_units list)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(units "")
  set(rest ${${list}})
  while(rest)
    list(LENGTH units number)
    list(SUBLIST rest 0 8 unit)
    list(REMOVE_ITEM rest ${unit})
    list(TRANSFORM unit REPLACE ".+" "#include \"\\0\"\n")
    string(CONCAT text ${unit})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda_units/unit_${number}.cu CONTENT "${text}" @ONLY)
    list(APPEND units ${PROJECT_BINARY_DIR}/cuda_units/unit_${number}.cu)
  endwhile()
  set(${list} ${units} PARENT_SCOPE)
endfunction()

kaon_cuda_sources(sources kernels)
kaon_cuda_units(kernels)
add_library(kaon_cuda MODULE ${sources} ${kernels} ${KAON_KERNEL_PRELUDE_SOURCE})
# of the layers only headers, and the small functions that kernels call on the host
target_link_libraries(kaon_cuda PRIVATE kaon_ops kaon_engine CUDA::cudart_static)
# 186: templates for all dtypes ask whether unsigned numbers are negative
target_compile_options(kaon_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--diag-suppress=186>")
# It shares classes with the program that opens it, and no state: what it takes of the engine stays inside.
target_link_options(kaon_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
# Where it finds cuBLASLt, cuDNN and NVRTC when the system does not say.
target_link_options(kaon_cuda PRIVATE -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR})
set_target_properties(kaon_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
kaon_compile_options(kaon_cuda)
kaon_found_by_programs(kaon_cuda)
