# oneDNN as the target oneDNN::dnnl, with the OpenMP runtime that it uses (its team size is set around each call).
# Debian's own dnnl-config.cmake insists on OpenCL's headers, which its package does not bring and Kaon does not use.

find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
find_library(ONEDNN_LIBRARY dnnl)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)

if(ONEDNN_INCLUDE_DIR)
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h oneDNN_VERSION
       REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM oneDNN_VERSION REPLACE "[^0-9]" "")
  list(JOIN oneDNN_VERSION "." oneDNN_VERSION)
  # Builds for oneTBB, or for SYCL, run a primitive on threads of their own choice.
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_config.h oneDNN_RUNTIME
       REGEX "^#define DNNL_CPU_RUNTIME DNNL_RUNTIME_(OMP|SEQ)$")
  if(NOT oneDNN_RUNTIME)
    set(oneDNN_REFUSED "${ONEDNN_INCLUDE_DIR} belongs to a oneDNN that was not built for OpenMP (ONEDNN_CPU_RUNTIME=OMP)")
    unset(ONEDNN_LIBRARY CACHE)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS ONEDNN_LIBRARY ONEDNN_INCLUDE_DIR
                                  VERSION_VAR oneDNN_VERSION HANDLE_VERSION_RANGE
                                  REASON_FAILURE_MESSAGE "${oneDNN_REFUSED}")

if(oneDNN_FOUND AND NOT TARGET oneDNN::dnnl)
  add_library(oneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(oneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES gomp)
endif()
