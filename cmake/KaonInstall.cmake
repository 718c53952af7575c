# cmake --install: public headers under include/kaon, libraries, and a package that find_package(kaon) finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kaon)

set(libraries kaon)
if(NOT BUILD_SHARED_LIBS)
  list(APPEND libraries ${KAON_LAYERS})
endif()
install(TARGETS ${libraries} EXPORT kaon-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT kaon-targets NAMESPACE kaon:: DESTINATION ${package_dir})
install(CODE "set(root \"${PROJECT_SOURCE_DIR}\")
              set(destination \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/kaon\")")
install(SCRIPT cmake/install_headers.cmake)
install(PROGRAMS scripts/check-coroutines DESTINATION ${CMAKE_INSTALL_DATADIR}/kaon)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN api.dox EXCLUDE)

configure_package_config_file(cmake/kaon-config.cmake.in ${PROJECT_BINARY_DIR}/kaon-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kaon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kaon-config.cmake ${PROJECT_BINARY_DIR}/kaon-config-version.cmake
              cmake/FindoneDNN.cmake
        DESTINATION ${package_dir})
