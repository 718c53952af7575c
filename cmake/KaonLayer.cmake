# kaon_layer: one folder of sources as the library kaon_<folder>, above the layers made before it.

# Sources say "kaon/engine/engine.h": one link in the build tree makes that path from the folders at the root.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/kaon SYMBOLIC)

set(KAON_LAYERS "")  # highest first: the order in which static libraries are linked

# kaon_per_target_sources(source...): those that Highway compiles once for each instruction set include themselves, so a
# unity build leaves them alone. Under sanitizers clang's optimizer takes minutes over some; convolutions are optimised
# all the same: their tests would run for minutes. The others are compiled without UBSan.
function(kaon_per_target_sources)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} per_target REGEX "hwy/foreach_target.h")
    if(NOT per_target)
      continue()
    endif()
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(KAON_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT source MATCHES "/nn/conv/")
      set(options -O0 -fno-sanitize=undefined)
      if("address" IN_LIST KAON_SANITIZE)
        list(APPEND options -fsanitize-address-use-after-return=never)
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# kaon_layer(folder [PRECOMPILED header] LIBRARIES target...). The header is precompiled under KAON_PRECOMPILE: half of
# the time that most sources take to compile.
function(kaon_layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" PRECOMPILED LIBRARIES)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(cuda|mpi|nccl)/[^/]+$")
  if(NOT sources)
    message(STATUS "Layer ${folder} has no sources yet: skipped")
    return()
  endif()

  set(target kaon_${folder})
  add_library(${target} STATIC ${sources})
  add_library(kaon::${folder} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(BUILD_SHARED_LIBS)
    target_compile_definitions(${target} PRIVATE KAON_SHARED)
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${KAON_LAYERS} ${arg_LIBRARIES})
  kaon_compile_options(${target})
  kaon_per_target_sources(${sources})
  if(KAON_PRECOMPILE AND arg_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE "\"${arg_PRECOMPILED}\"")
  endif()
  set(KAON_LAYERS ${target} ${KAON_LAYERS} PARENT_SCOPE)
endfunction()
