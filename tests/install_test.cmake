# Installs the build, moves the installed tree, then configures, builds and runs the project CONSUMER against it. The
# headers there are those of cmake/KaonPublicHeaders.cmake and what these include, and no others.
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

cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/..)
include(${root}/cmake/KaonPublicHeaders.cmake)
kaon_follow_includes(${root} wanted kaon.h ${KAON_OPTIONAL_HEADERS})
file(GLOB_RECURSE installed RELATIVE ${SCRATCH}/moved/include/kaon ${SCRATCH}/moved/include/kaon/*)
list(SORT installed)
if(NOT installed STREQUAL wanted)
  set(more ${installed})
  list(REMOVE_ITEM more ${wanted})
  list(REMOVE_ITEM wanted ${installed})
  message(FATAL_ERROR "Installed are ${more}, which are not public, and ${wanted} are missing")
endif()

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_PREFIX_PATH=${SCRATCH}/moved)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/consumer)
if(NOT output STREQUAL "12\n")
  message(FATAL_ERROR "The consumer printed \"${output}\", not 12")
endif()
run(${SCRATCH}/moved/share/kaon/check-coroutines ${CONSUMER}/main.cpp)
file(REMOVE_RECURSE ${SCRATCH})
