# cpack: a Debian package of what is installed, for machines that have the packages which scripts/setup names.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libkaon-dev)
set(CPACK_PACKAGE_CONTACT "The authors of Kaon <kaon@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# Debian 12 has Boost 1.74 under the plain names, and 1.81 beside it; later releases have later ones.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libboost1.81-dev | libboost-dev (>= 1.81), libboost-json1.81-dev | libboost-json-dev (>= 1.81), libdnnl-dev (>= 2.6), libfmt-dev (>= 9), libhwy-dev (>= 1.0.3), libopenblas0-pthread, zlib1g-dev")
if(KAON_IMAGES)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libjpeg62-turbo-dev | libjpeg-dev, libpng-dev (>= 1.6)")
endif()
include(CPack)
