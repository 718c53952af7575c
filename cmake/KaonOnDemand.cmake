# What libraries have in common that a process opens on demand.

# kaon_auto_option(name what): the cache variable `name`, one of AUTO, ON and OFF.
macro(kaon_auto_option name what)
  set(${name} AUTO CACHE STRING "${what}: AUTO (use it if it is there), ON (it must be there) or OFF")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name} is ${${name}}: expected AUTO, ON or OFF")
  endif()
endmacro()

# kaon_found_by_programs(target): installs it where programs that link with Kaon look for what they open, and lets them
# find it in the build as well.
function(kaon_found_by_programs target)
  if(BUILD_SHARED_LIBS)
    set_target_properties(kaon PROPERTIES BUILD_RPATH ${PROJECT_BINARY_DIR})
  endif()
  target_link_options(kaon_engine INTERFACE
    $<BUILD_INTERFACE:-Wl,-rpath,${PROJECT_BINARY_DIR}>
    $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# kaon_comm_library(target folder library...): collectives from comm/<folder>/ as lib<target>.so, which has the engine's
# exceptions of its own; Kaon itself is in the program.
function(kaon_comm_library target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/comm/${folder}/*.cpp)
  add_library(${target} SHARED ${sources})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE kaon_engine ${ARGN})
  kaon_compile_options(${target})
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()
