# Warnings, sanitizers, and the faster tools where the machine has them (ccache; with clang mold or lld).

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Kaon needs g++ 12 or later, this is ${CMAKE_CXX_COMPILER_VERSION}")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "Kaon needs clang 16 or later, this is ${CMAKE_CXX_COMPILER_VERSION}")
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ${PROJECT_IS_TOP_LEVEL})

# kaon_compile_options(target): what every target of this project is compiled with.
function(kaon_compile_options target)
  set(options -Wall -Wextra -fno-math-errno
      $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # g++ 12 is wrong about std::string
      # In a unity build a source is an included file, whose lambdas g++ takes for a header's.
      $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>
      $<$<CXX_COMPILER_ID:Clang>:-Wno-undefined-var-template>  # def of an operator's kinds is in the family's source
      # Messages name "examples/01_ndarray.cpp", wherever the tree lies.
      -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${PROJECT_BINARY_DIR}/include/kaon/=)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
endfunction()

if(KAON_GUARD_PAGES)
  add_compile_definitions(KAON_GUARD_PAGES)
endif()
if(KAON_SANITIZE)
  list(JOIN KAON_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer
                      # wrong about <regex> and <optional> in instrumented code
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${sanitizers})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # it does not define g++'s macros
    foreach(kind IN ITEMS address thread)
      if(kind IN_LIST KAON_SANITIZE)
        string(TOUPPER ${kind} upper)
        add_compile_definitions(__SANITIZE_${upper}__=1)
      endif()
    endforeach()
  endif()
  if("undefined" IN_LIST KAON_SANITIZE)
    # AddressSanitizer stops at a null pointer as well; checking each member access for one doubles compile times.
    add_compile_options(-fno-sanitize=null,vptr,nonnull-attribute,returns-nonnull-attribute)
  endif()
  if("thread" IN_LIST KAON_SANITIZE)
    # ThreadSanitizer does not understand the fences that Asio puts around its handlers.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# For directories of programs, tests included: what runs long is in the libraries, and clang takes two to four times as
# long where it optimises a program, sanitizers included.
set(KAON_PROGRAM_OPTIONS "")
if(KAON_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(KAON_PROGRAM_OPTIONS -O0)
endif()

if(KAON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(PROJECT_IS_TOP_LEVEL)
  find_program(KAON_CCACHE ccache)
  if(KAON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${KAON_CCACHE})
  endif()

  # Not with g++: it writes unwind entries of no length for empty cold parts, and lld keeps one entry an address. Where
  # that is the empty one, an exception that passes there ends the program.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT "${CMAKE_EXE_LINKER_FLAGS}" MATCHES "-fuse-ld")
    find_program(KAON_LINKER NAMES mold ld.lld)
    if(KAON_LINKER)
      cmake_path(GET KAON_LINKER FILENAME linker)
      string(REPLACE "ld.lld" "lld" linker ${linker})
      add_link_options(-fuse-ld=${linker})
    endif()
  endif()
endif()
