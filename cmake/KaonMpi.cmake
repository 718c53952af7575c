# MPI: libkaon_mpi.so from comm/mpi/, which a process opens when it first asks for ranks.
set(KAON_MPI AUTO CACHE STRING "MPI: AUTO (use it if it is there), ON (it must be there) or OFF")
set_property(CACHE KAON_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT KAON_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KAON_MPI is ${KAON_MPI}: expected AUTO, ON or OFF")
endif()
if(KAON_MPI STREQUAL "OFF")
  return()
endif()

set(MPI_CXX_SKIP_MPICXX ON)  # its C++ interface, which nobody uses
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  if(KAON_MPI STREQUAL "ON")
    message(FATAL_ERROR "KAON_MPI is ON, but no MPI was found: install libopenmpi-dev or MPICH, or configure with "
                        "-DKAON_MPI=OFF")
  endif()
  message(STATUS "MPI not found: building without ranks")
  return()
endif()
message(STATUS "MPI ${MPI_CXX_VERSION}: building libkaon_mpi.so")

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/comm/mpi/*.cpp)
add_library(kaon_mpi SHARED ${sources})
target_compile_features(kaon_mpi PRIVATE cxx_std_20)
# The engine's exceptions; Kaon itself is in the program.
target_link_libraries(kaon_mpi PRIVATE kaon_engine MPI::MPI_CXX)
kaon_compile_options(kaon_mpi)
set_target_properties(kaon_mpi PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_link_options(kaon_mpi PRIVATE -Wl,--exclude-libs,ALL)
install(TARGETS kaon_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/kaon-launch DESTINATION ${CMAKE_INSTALL_BINDIR})
