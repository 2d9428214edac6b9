# Daemons of newer releases of Ceph, in folders that tools/ceph-release makes with the first test and keeps.
set(default ${PROJECT_BINARY_DIR}/ceph-releases)
if(DEFINED ENV{HOME})
  set(default $ENV{HOME}/.cache/ec-cuda)
endif()
set(EC_CEPH_RELEASES ${default} CACHE PATH "where the tests keep a Debian with Ceph 18 and one with Ceph 20")
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)

# ec_add_release_test(NAME 18|20 COMMAND..): in the folder of that release, with our build at its own path.
function(ec_add_release_test name release)
  add_test(NAME ceph${release}.${name} COMMAND
    ${PROJECT_SOURCE_DIR}/tools/ceph-release ${release} ${EC_CEPH_RELEASES}/ceph-${release} --bind ${PROJECT_BINARY_DIR}
      --bind $<TARGET_FILE:Boost::program_options> -- ${ARGN})
  set_tests_properties(ceph${release}.${name} PROPERTIES
    LABELS ceph${release} RUN_SERIAL ON COST 1000 TIMEOUT 1200 SKIP_RETURN_CODE 77)
endfunction()

foreach(release 18 20)
  ec_add_release_test(identical ${release} ${CMAKE_CURRENT_SOURCE_DIR}/release_test
                      --plugin-dir $<TARGET_FILE_DIR:ec_cuda>)
endforeach()
