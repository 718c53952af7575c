# Installs the build, moves the installed tree, and uses it from there: with CMake as the project CONSUMER does, and with
# pkg-config.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/consumer/use.cmake)

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first --config ${CONFIG})
file(RENAME ${SCRATCH}/first ${SCRATCH}/moved)
use_with_cmake(${SCRATCH}/moved)
use_with_pkg_config(${SCRATCH}/moved)
run(${SCRATCH}/moved/share/kaon/check-coroutines ${CONSUMER}/main.cpp)
file(REMOVE_RECURSE ${SCRATCH})
