# kaon: what programs link with. The static layers; or under BUILD_SHARED_LIBS one libkaon.so of them, which exports what
# the public headers declare (engine/api.h). kaon_layers: always the static layers, for tests that look inside.
add_library(kaon_layers INTERFACE)
target_link_libraries(kaon_layers INTERFACE ${KAON_LAYERS})

if(NOT BUILD_SHARED_LIBS)
  add_library(kaon INTERFACE)
  target_link_libraries(kaon INTERFACE ${KAON_LAYERS})
else()
  add_library(kaon SHARED)
  foreach(layer IN LISTS KAON_LAYERS)
    target_sources(kaon PRIVATE $<TARGET_OBJECTS:${layer}>)
  endforeach()
  set_target_properties(kaon PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} INSTALL_RPATH $ORIGIN)  # libkaon_cuda.so is beside it
  target_compile_features(kaon PUBLIC cxx_std_20)
  target_compile_definitions(kaon INTERFACE KAON_SHARED)
  target_include_directories(kaon PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(kaon PUBLIC Threads::Threads fmt::fmt Boost::headers
                             PRIVATE oneDNN::dnnl hwy::hwy Boost::json ZLIB::ZLIB ${KAON_IMAGE_LIBRARIES})
  if(NOT KAON_SANITIZE)  # their runtime is in the program
    target_link_options(kaon PRIVATE -Wl,--no-undefined)
  endif()
endif()
add_library(kaon::kaon ALIAS kaon)
