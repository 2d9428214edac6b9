# cmake --install BUILD [--prefix P] [--component plugin|tools|docs]
#
# Daemons look for plugins in one directory of their own package, so the plugin must be put there: in Debian
# /usr/lib/<triplet>/ceph/erasure-code, which the preset `release` (prefix /usr) comes to.
set(EC_PLUGIN_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/ceph/erasure-code
    CACHE STRING "Where the plugin is installed, absolute or under the prefix")

install(TARGETS ec_cuda LIBRARY DESTINATION ${EC_PLUGIN_INSTALL_DIR} COMPONENT plugin)
foreach(program ec_bench ec_demo)
  if(TARGET ${program})
    # libceph-common lies in a directory of Ceph's own.
    cmake_path(GET CEPH_COMMON_LIBRARY PARENT_PATH ceph_library_dir)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH ${ceph_library_dir})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endif()
endforeach()
install(PROGRAMS tools/ceph-cluster TYPE BIN COMPONENT tools)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)
