# What a program needs that loads Ceph plugins itself: librados and the daemons' common library, which ships
# without a development link. Where either is missing CEPH_HOST_FOUND is off and such programs are left out.
find_library(RADOS_LIBRARY rados)
find_library(CEPH_COMMON_LIBRARY NAMES libceph-common.so.2 PATH_SUFFIXES ceph)
# Where Debian's own plugins lie.
find_path(CEPH_PLUGIN_DIR libec_isa.so PATHS /usr/lib PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/ceph/erasure-code
                                                                    ceph/erasure-code)
if(RADOS_LIBRARY AND CEPH_COMMON_LIBRARY)
  set(CEPH_HOST_FOUND ON)
  foreach(name rados ceph-common)
    string(TOUPPER ${name} upper)
    string(REPLACE "-" "_" upper ${upper})
    add_library(${name} UNKNOWN IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${upper}_LIBRARY})
  endforeach()
else()
  set(CEPH_HOST_FOUND OFF)
endif()
message(STATUS "Programs that host Ceph plugins: ${CEPH_HOST_FOUND}")
