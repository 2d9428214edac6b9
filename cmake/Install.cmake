# cmake --install BUILD [--prefix P] [--component plugin|library|python|tools|docs]
#
# Daemons look for plugins in one directory of their own package, so the plugin must be put there: in Debian
# /usr/lib/<triplet>/ceph/erasure-code, which the preset `release` (prefix /usr) comes to.
set(EC_PLUGIN_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/ceph/erasure-code
    CACHE STRING "Where the plugin is installed, absolute or under the prefix")

install(TARGETS ec_cuda ec_cuda_pinned LIBRARY DESTINATION ${EC_PLUGIN_INSTALL_DIR} COMPONENT plugin)

# The library, its headers, and what find_package(eccoder) and pkg-config read. Both may be moved with their prefix.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/eccoder)
install(TARGETS eccoder EXPORT eccoder LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY interfaces/ec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT eccoder NAMESPACE eccoder:: FILE eccoder-targets.cmake DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(cmake/eccoder-config.cmake.in ${PROJECT_BINARY_DIR}/eccoder-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/eccoder-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/eccoder-config.cmake ${PROJECT_BINARY_DIR}/eccoder-config-version.cmake
        DESTINATION ${package_dir} COMPONENT library)
# ${pcfiledir} is where the file lies, below the prefix; an absolute libdir has no such way back.
set(EC_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(EC_PC_PREFIX "\${pcfiledir}/${up}")
endif()
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE EC_PC_LIBDIR)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE EC_PC_INCLUDEDIR)
configure_file(cmake/eccoder.pc.in ${PROJECT_BINARY_DIR}/eccoder.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/eccoder.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# What `ec_bench ceph` becomes.
if(TARGET ec_bench_ceph)
  install(TARGETS ec_bench_ceph RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ec-cuda COMPONENT tools)
endif()
foreach(program ec ectool ec_bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endif()
endforeach()
# bash looks for a file of the command's name.
foreach(program ec ectool ec_bench ec_adopt)
  install(FILES tools/completion DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program} COMPONENT tools)
endforeach()
# What has ectool write a file for Prometheus; systemctl enable --now ec-cuda-metrics.timer.
configure_file(tools/systemd/ec-cuda-metrics.service.in ${PROJECT_BINARY_DIR}/ec-cuda-metrics.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ec-cuda-metrics.service tools/systemd/ec-cuda-metrics.timer
        DESTINATION lib/systemd/system COMPONENT tools)
# The command is a link: the program finds its version beside itself.
install(PROGRAMS tools/adopt DESTINATION ${CMAKE_INSTALL_DATADIR}/ec-cuda COMPONENT tools)
install(FILES VERSION DESTINATION ${CMAKE_INSTALL_DATADIR}/ec-cuda COMPONENT tools)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_DATADIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE data_dir)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
file(CREATE_LINK ${data_dir}/ec-cuda/adopt ${PROJECT_BINARY_DIR}/links/ec_adopt SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/links/ec_adopt TYPE BIN COMPONENT tools)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)

# Pages of the library's interfaces, by the target ec_api_docs; installed where they were built.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/api)
  set(DOXYGEN_HAVE_DOT NO)
  set(DOXYGEN_QUIET YES)
  set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
  set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)
  set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
  doxygen_add_docs(ec_api_docs interfaces/ec/ec.h interfaces/ec/codec.hpp)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/api/html/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/api COMPONENT docs OPTIONAL)
endif()
# For every python3; the package opens libeccoder when it is imported.
set(EC_PYTHON_INSTALL_DIR lib/python3/dist-packages CACHE STRING "Where the Python package is installed, absolute or under the prefix")
install(DIRECTORY python/eccoder DESTINATION ${EC_PYTHON_INSTALL_DIR} COMPONENT python
        FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)

# What cmake --install needs, and no test: cmake --build BUILD --target installed
add_custom_target(installed)
foreach(target ec_cuda ec_cuda_pinned eccoder ec ectool ec_bench ec_bench_ceph)
  if(TARGET ${target})
    add_dependencies(installed ${target})
  endif()
endforeach()
