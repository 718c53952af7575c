# kaon.pc: what pkg-config says of an installed Kaon. It finds the folders from its own place, so that the installed tree
# may be moved. What Kaon uses is there by its flags, since not all of it has a .pc file that could be named; pkg-config
# itself drops those folders that the compiler searches anyway.
set(folders $<TARGET_PROPERTY:kaon,INTERFACE_INCLUDE_DIRECTORIES>)
set(folders $<REMOVE_DUPLICATES:$<FILTER:${folders},EXCLUDE,^${PROJECT_BINARY_DIR}/>>)
set(definitions $<REMOVE_DUPLICATES:$<TARGET_PROPERTY:kaon,INTERFACE_COMPILE_DEFINITIONS>>)
set(flags "-pthread $<$<BOOL:${folders}>:-I$<JOIN:${folders}, -I>> $<$<BOOL:${definitions}>:-D$<JOIN:${definitions}, -D>>")

if(BUILD_SHARED_LIBS)
  set(libraries -lkaon)
  set(used fmt::fmt=fmt)
else()
  list(TRANSFORM KAON_LAYERS PREPEND "-l" OUTPUT_VARIABLE libraries)
  set(used fmt::fmt=fmt Boost::json=boost_json oneDNN::dnnl=dnnl hwy::hwy=hwy)
  if(KAON_IMAGES)
    list(APPEND used JPEG::JPEG=jpeg PNG::PNG=png)
  endif()
  list(APPEND used ZLIB::ZLIB=z)
endif()
foreach(library IN LISTS used)
  string(REPLACE "=" ";" library ${library})
  list(GET library 0 target)
  list(GET library 1 name)
  list(APPEND libraries -L$<TARGET_LINKER_FILE_DIR:${target}> -l${name})
endforeach()
if(NOT BUILD_SHARED_LIBS)
  list(APPEND libraries -lgomp)
endif()
if(NOT BUILD_SHARED_LIBS AND (TARGET kaon_cuda OR TARGET kaon_mpi))
  list(APPEND libraries "-Wl,-rpath,\${libdir}")  # where programs find them
endif()
list(JOIN libraries " " libraries)

cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
cmake_path(SET up NORMALIZE ${libdir}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." up ${up})

file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/kaon.pc CONTENT
"# A program says -std=c++20 itself, or a later standard.
prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${libdir}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: kaon
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Cflags: -I\${includedir} ${flags}
Libs: -L\${libdir} ${libraries} -pthread
")
install(FILES ${PROJECT_BINARY_DIR}/kaon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
