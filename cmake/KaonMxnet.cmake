# libkaon_mxnet.so: MXNet's C interface, for the Python package of MXNet. It contains Kaon and exports the C functions
# alone, so that it does not meet another Kaon in the process.
option(KAON_MXNET "Build libkaon_mxnet.so, on which MXNet's Python programs run" ON)
if(NOT KAON_MXNET)
  return()
endif()

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/mxnet/*.cpp)
add_library(kaon_mxnet SHARED ${sources})
target_compile_features(kaon_mxnet PUBLIC cxx_std_20)
target_include_directories(kaon_mxnet INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(kaon_mxnet PRIVATE ${KAON_LAYERS})
kaon_compile_options(kaon_mxnet)
set_target_properties(kaon_mxnet PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH $ORIGIN)
target_link_options(kaon_mxnet PRIVATE -Wl,--exclude-libs,ALL)
if(NOT KAON_SANITIZE)  # their runtime is in the program
  target_link_options(kaon_mxnet PRIVATE -Wl,--no-undefined)
endif()
if(KAON_PRECOMPILE)
  target_precompile_headers(kaon_mxnet PRIVATE "\"kaon/graph/symbol.h\"")
endif()
install(TARGETS kaon_mxnet LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
