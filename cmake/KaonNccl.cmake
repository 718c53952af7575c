# NCCL: libkaon_nccl.so from comm/nccl/, which a process opens for the first array of a GPU that goes between ranks. It
# is built without NCCL, whose library it opens in turn; its ranks meet by MPI.
kaon_auto_option(KAON_NCCL NCCL)
if(KAON_NCCL STREQUAL "OFF")
  return()
endif()
if(NOT TARGET kaon_cuda OR NOT TARGET kaon_mpi)
  if(KAON_NCCL STREQUAL "ON")
    message(FATAL_ERROR "KAON_NCCL is ON, but NCCL needs both CUDA and MPI: configure with -DKAON_CUDA=ON -DKAON_MPI=ON "
                        "to see what is missing, or with -DKAON_NCCL=OFF")
  endif()
  message(STATUS "CUDA or MPI not found: building without ranks on GPUs")
  return()
endif()
kaon_comm_library(kaon_nccl nccl ${CMAKE_DL_LIBS})
kaon_found_by_programs(kaon_nccl)
