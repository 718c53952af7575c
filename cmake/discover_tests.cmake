# Asks the Catch2 program PROGRAM for its cases and writes one add_test for each into OUTPUT.
cmake_minimum_required(VERSION 3.25)

function(list_cases spec result)
  execute_process(COMMAND ${PROGRAM} ${spec} --list-test-names-only
                  OUTPUT_VARIABLE names ERROR_VARIABLE errors RESULT_VARIABLE code)
  if(NOT code MATCHES "^[0-9]+$" OR errors)  # Catch2 returns the number of cases
    message(FATAL_ERROR "${PROGRAM} --list-test-names-only failed (${code})\n${errors}")
  endif()
  string(REGEX REPLACE "\n+$" "" names "${names}")
  # CMake does not split a list inside of brackets, and "[0, 1)" opens one for good.
  string(REPLACE "[" "${bracket_begin}" names "${names}")
  string(REPLACE "]" "${bracket_end}" names "${names}")
  string(REPLACE ";" "\\;" names "${names}")
  string(REPLACE "\n" ";" names "${names}")
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

string(ASCII 1 bracket_begin)
string(ASCII 2 bracket_end)

list_cases("*" cases)
set(tags slow arithmetic unsanitized)
foreach(tag IN LISTS tags)
  list_cases("[${tag}]" ${tag}_cases)
endforeach()

set(script "")
foreach(case IN LISTS cases)
  set(name "${case}")
  string(REPLACE "${bracket_begin}" "[" name "${name}")
  string(REPLACE "${bracket_end}" "]" name "${name}")
  string(REGEX REPLACE "([],[\\])" "\\\\\\1" spec "${name}")
  set(labels ${LABEL})
  set(timeout 300)  # for sanitizers on a busy machine
  foreach(tag IN LISTS tags)
    if(case IN_LIST ${tag}_cases)
      list(APPEND labels ${tag})
    endif()
  endforeach()
  if(slow IN_LIST labels)
    set(timeout 600)
  endif()
  string(APPEND script
    "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[${spec}]==] --warn NoTests)\n"
    "set_tests_properties([==[${name}]==] PROPERTIES LABELS [==[${labels}]==] TIMEOUT ${timeout} SKIP_RETURN_CODE 4)\n")
endforeach()
file(WRITE ${OUTPUT} "${script}")
