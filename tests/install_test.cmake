# Installs the build, moves the installed tree, then configures, builds and runs the project CONSUMER against it.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${code}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first --config ${CONFIG})
file(RENAME ${SCRATCH}/first ${SCRATCH}/moved)

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_PREFIX_PATH=${SCRATCH}/moved)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/consumer)
if(NOT output STREQUAL "12\n")
  message(FATAL_ERROR "The consumer printed \"${output}\", not 12")
endif()
run(${SCRATCH}/moved/share/kaon/check-coroutines ${CONSUMER}/main.cpp)
file(REMOVE_RECURSE ${SCRATCH})
