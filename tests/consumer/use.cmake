# What the tests of packages share: building and running the program CONSUMER/main.cpp against an installed tree.

# Runs a command that has to succeed; `output` is what it printed.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${code}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The program must print 12. Shared libraries, where the tree has them, are found as a user would say.
function(run_consumer program prefix)
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/lib:$ENV{LD_LIBRARY_PATH} ${program})
  if(NOT output STREQUAL "12\n")
    message(FATAL_ERROR "${program} printed \"${output}\", not 12")
  endif()
endfunction()

# A program opens what is on demand without being told where it is: the one rank of a process that no launcher started.
function(run_ranks program prefix)
  if(EXISTS ${prefix}/lib/libkaon_mpi.so AND NOT EXISTS ${prefix}/lib/libkaon.so)
    run(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=KAON_MPI_LIBRARY ${program} ranks)
    if(NOT output STREQUAL "1\n")
      message(FATAL_ERROR "${program} ranks printed \"${output}\", not 1")
    endif()
  endif()
endfunction()

function(use_with_cmake prefix)
  set(ENV{CMAKE_PREFIX_PATH} ${prefix}:${PREFIX_PATH})
  run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
      -D CMAKE_BUILD_TYPE=${CONFIG})
  run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
  run_consumer(${SCRATCH}/build/consumer ${prefix})
  run_ranks(${SCRATCH}/build/consumer ${prefix})
endfunction()

# pkg-config shall know Kaon from this tree alone; the compiler gets nothing but what it says.
function(use_with_pkg_config prefix)
  find_program(pkg_config pkg-config REQUIRED)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/lib/pkgconfig)
  run(${pkg_config} --modversion kaon)
  run(${pkg_config} --cflags --libs kaon)
  separate_arguments(flags UNIX_COMMAND "${output}")
  file(MAKE_DIRECTORY ${SCRATCH}/by_pkg_config)
  run(${COMPILER} -std=c++20 ${CONSUMER}/main.cpp -o ${SCRATCH}/by_pkg_config/consumer ${flags})
  run_consumer(${SCRATCH}/by_pkg_config/consumer ${prefix})
  run_ranks(${SCRATCH}/by_pkg_config/consumer ${prefix})
endfunction()
