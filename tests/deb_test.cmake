# Makes the Debian package of the build, looks at what it says of itself, unpacks it into an empty folder and uses it from
# there.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/consumer/use.cmake)

find_program(dpkg_deb dpkg-deb)
if(NOT dpkg_deb)
  message("skipped: no dpkg-deb")
  return()
endif()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
cmake_path(GET CMAKE_COMMAND PARENT_PATH bin)
run(${bin}/cpack --config ${BUILD}/CPackConfig.cmake -G DEB -C ${CONFIG} -B ${SCRATCH}/cpack)
file(GLOB package ${SCRATCH}/cpack/libkaon-dev_*.deb)

run(${dpkg_deb} --field ${package} Package Version Depends)
foreach(part "Package: libkaon-dev" "Version: 0.1" "libdnnl-dev" "libopenblas0-pthread" "libfmt-dev" "libboost-json1.81-dev")
  if(NOT output MATCHES "${part}")
    message(FATAL_ERROR "${package} does not say \"${part}\" of itself:\n${output}")
  endif()
endforeach()

run(${dpkg_deb} --extract ${package} ${SCRATCH}/root)
file(GLOB all RELATIVE ${SCRATCH}/root ${SCRATCH}/root/*)
if(NOT all STREQUAL "usr")
  message(FATAL_ERROR "${package} has files outside of usr: ${all}")
endif()
use_with_cmake(${SCRATCH}/root/usr)
file(REMOVE_RECURSE ${SCRATCH})
