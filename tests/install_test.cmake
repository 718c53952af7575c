# Installs the build, moves the installed tree, and uses it from there: with CMake as the project CONSUMER does, and with
# pkg-config. The headers there are those of cmake/KaonPublicHeaders.cmake and what these include, and no
# others.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/consumer/use.cmake)

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

use_with_cmake(${SCRATCH}/moved)
use_with_pkg_config(${SCRATCH}/moved)
run(${SCRATCH}/moved/share/kaon/check-coroutines ${CONSUMER}/main.cpp)
file(REMOVE_RECURSE ${SCRATCH})
