# kaon_discover_tests: registers every Catch2 case of a program with ctest, after each build of the program.

set(KAON_DISCOVER_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/discover_tests.cmake)

# kaon_discover_tests(target LABEL label): cases get the label, those tagged [slow], [arithmetic] or [unsanitized] that one as well.
function(kaon_discover_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "")
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_cases.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${list} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D LABEL=${arg_LABEL} -D OUTPUT=${list}
            -P ${KAON_DISCOVER_SCRIPT})
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS [==[${list}]==])\n  include([==[${list}]==])\nelse()\n"
                        "  add_test(${target}_not_built ${target}_not_built)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
