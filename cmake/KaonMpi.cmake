# MPI: libkaon_mpi.so from comm/mpi/, which a process opens when it first asks for ranks.
kaon_auto_option(KAON_MPI MPI)
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

kaon_comm_library(kaon_mpi mpi MPI::MPI_CXX)
kaon_found_by_programs(kaon_mpi)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/kaon-launch DESTINATION ${CMAKE_INSTALL_BINDIR})
