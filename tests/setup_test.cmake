# cmake -D ROOT=<repository> -D SCRATCH=<folder> -P setup_test.cmake: what scripts/setup does on machines that differ in
# what is installed and in who may install it. It sees no tools but those made here, which keep the machine in files:
# `installed` is read by dpkg-query and appended to by apt-get, which writes its arguments to `asked` and fails for what
# is named in `unavailable`.
cmake_minimum_required(VERSION 3.25)

set(tools ${SCRATCH}/setup_tools)
file(REMOVE_RECURSE ${tools})
file(MAKE_DIRECTORY ${tools})
find_program(bash bash REQUIRED)
foreach(tool bash env true)
  find_program(${tool}_path ${tool} REQUIRED)
  file(CREATE_LINK ${${tool}_path} ${tools}/${tool} SYMBOLIC)
endforeach()

function(make_tool name text)
  file(WRITE ${tools}/${name} "#!${bash}\ncd ${tools}\n${text}")
  file(CHMOD ${tools}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# has name FILE: the package is named in the file.
set(has [=[has() { [[ " $(<"$2") " == *" $1 "* ]]; }]=])
set(dpkg_query "${has}\nhas \"\${@: -1}\" installed && echo -n installed")
set(apt_get "${has}
[[ $1 == install ]] || exit 0
echo \"$*\" >>asked
for package in \"$@\"; do
  if has \"$package\" unavailable; then exit 100; fi
done
for package in \"$@\"; do [[ $package == -* ]] || echo -n \" $package \" >>installed; done
")
make_tool(apt-cache "")

# try(<what> USER <uid> [SUDO works|asks] [NO_DPKG] INSTALLED <packages> [UNAVAILABLE <packages>] [ARGUMENTS <of setup>]
#     CODE <exit code> SAYS <parts of its text> ASKED <what apt-get shall install>)
function(try what)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_DPKG" "USER;SUDO;INSTALLED;UNAVAILABLE;CODE;ASKED" "ARGUMENTS;SAYS")
  file(WRITE ${tools}/installed "${arg_INSTALLED}")
  file(WRITE ${tools}/unavailable "${arg_UNAVAILABLE}")
  file(WRITE ${tools}/asked "")
  make_tool(id "echo ${arg_USER}")
  make_tool(apt-get "${apt_get}")
  make_tool(dpkg-query "${dpkg_query}")
  file(REMOVE ${tools}/sudo)
  if(arg_SUDO STREQUAL "works")
    make_tool(sudo "[[ $1 != -n ]] || shift\nexec \"$@\"")
  elseif(arg_SUDO STREQUAL "asks")
    make_tool(sudo "echo 'sudo: a password is required' >&2; exit 1")
  endif()
  if(arg_NO_DPKG)
    file(REMOVE ${tools}/dpkg-query)
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PATH=${tools} ${bash} ${ROOT}/scripts/setup ${arg_ARGUMENTS}
                  INPUT_FILE /dev/null RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  file(READ ${tools}/asked asked)
  string(STRIP "${asked}" asked)
  set(report "scripts/setup, ${what}: exit code ${code}, apt-get got \"${asked}\", and it said:\n${output}${errors}")
  if(NOT code EQUAL arg_CODE)
    message(FATAL_ERROR "Expected the exit code ${arg_CODE}. ${report}")
  endif()
  foreach(part IN LISTS arg_SAYS)
    string(FIND "${output}${errors}" "${part}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "Expected it to say \"${part}\". ${report}")
    endif()
  endforeach()
  if(arg_ASKED)
    set(arg_ASKED "install -y -q --no-install-recommends ${arg_ASKED}")
  endif()
  if(NOT asked STREQUAL "${arg_ASKED}")
    message(FATAL_ERROR "Expected apt-get to get \"${arg_ASKED}\". ${report}")
  endif()
endfunction()

file(STRINGS ${ROOT}/scripts/setup lines)
list(JOIN lines " " text)
if(NOT text MATCHES "packages=\\(([^)]*)\\)")
  message(FATAL_ERROR "scripts/setup has no list of packages any more: this check is broken")
endif()
string(REGEX REPLACE " +" " " all "${CMAKE_MATCH_1}")
string(REGEX MATCHALL "[^ ]+" count "${all}")
list(LENGTH count count)
string(REPLACE " libfmt-dev " " " most "${all}")
string(REPLACE " zlib1g-dev " " " most "${most}")

try("everything installed" USER 1000 INSTALLED "${all}" CODE 0 SAYS "all ${count} packages are installed")
try("everything but the second compiler" USER 0 INSTALLED "${all}" ARGUMENTS clang CODE 0 ASKED "clang-16")
try("as root" USER 0 INSTALLED "${most}" CODE 0 SAYS "installing libfmt-dev zlib1g-dev" "setup: done"
    ASKED "libfmt-dev zlib1g-dev")
try("with sudo" USER 1000 SUDO works INSTALLED "${most}" CODE 0 SAYS "setup: done" ASKED "libfmt-dev zlib1g-dev")
try("without sudo" USER 1000 INSTALLED "${most}" CODE 1
    SAYS "packages are missing: libfmt-dev zlib1g-dev\n" "apt-get install libfmt-dev zlib1g-dev" "-DCMAKE_PREFIX_PATH=")
try("with a sudo that wants a password" USER 1000 SUDO asks INSTALLED "${most}" CODE 1
    SAYS "packages are missing: libfmt-dev zlib1g-dev\n")
try("a package that cannot be had" USER 1000 SUDO works INSTALLED "${most} zlib1g-dev" UNAVAILABLE libfmt-dev CODE 1
    SAYS "could not be installed" "libfmt-dev: sudo apt-get install libfmt-dev"
    ASKED "libfmt-dev\ninstall -y -q --no-install-recommends libfmt-dev")  # again with fresh lists
try("another distribution" USER 1000 NO_DPKG CODE 0 SAYS "equivalents of: ${all}\n" "going on")
try("a wrong argument" USER 0 INSTALLED "${all}" ARGUMENTS turbo CODE 2 SAYS "unknown argument turbo")
file(REMOVE_RECURSE ${tools})
