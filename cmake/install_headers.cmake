# Run by the installation: installs the public headers of the tree at `root`, and what they include, into `destination`.
cmake_minimum_required(VERSION 3.25)
include(${root}/cmake/KaonPublicHeaders.cmake)
kaon_follow_includes(${root} headers kaon.h ${KAON_OPTIONAL_HEADERS})
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL ${root}/${header} DESTINATION ${destination}/${folder})
endforeach()
