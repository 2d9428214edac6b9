# Daemons of newer releases of Ceph, in folders that tools/ceph-release makes with the first test and keeps.
set(default ${PROJECT_BINARY_DIR}/ceph-releases)
if(DEFINED ENV{HOME})
  set(default $ENV{HOME}/.cache/ec-cuda)
endif()
set(EC_CEPH_RELEASES ${default} CACHE PATH "where the tests keep a Debian with Ceph 18 and one with Ceph 20")

# The command that runs one in the folder of a release, with our build at its own path.
function(ec_in_release release command)
  set(${command} ${PROJECT_SOURCE_DIR}/tools/ceph-release ${release} ${EC_CEPH_RELEASES}/ceph-${release}
    --bind ${PROJECT_BINARY_DIR} -- PARENT_SCOPE)
endfunction()

foreach(release 18 20)
  ec_in_release(${release} inside)
  set(plugin --plugin-dir $<TARGET_FILE_DIR:ec_cuda>)
  add_test(NAME ceph${release}.identical COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/release_test ${plugin})
  set_tests_properties(ceph${release}.identical PROPERTIES
    LABELS ceph${release} RESOURCE_LOCK cluster COST 1000 TIMEOUT 1200 SKIP_RETURN_CODE 77)
  # Only by name: ctest --preset nightly
  add_test(NAME ceph${release}.own.nightly CONFIGURATIONS nightly
           COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/ceph_own_test ${plugin} --minutes 10)
  add_test(NAME ceph${release}.chaos.nightly CONFIGURATIONS nightly COMMAND ${inside} ${chaos} --minutes 10)
  set_tests_properties(ceph${release}.own.nightly ceph${release}.chaos.nightly PROPERTIES
    LABELS nightly RESOURCE_LOCK cluster TIMEOUT 2700 SKIP_RETURN_CODE 77)
endforeach()

# A bit of a coding chunk that is flipped on disk is found.
ec_in_release(20 inside)
add_test(NAME ceph20.mutant COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/release_test
                                    --plugin-dir $<TARGET_FILE_DIR:ec_cuda> --damage --forms cauchy-4k)
# Pools of isa and jerasure of which half of the OSDs code by our file under those names.
add_test(NAME ceph20.adopt COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/adopt_test --plugin-dir $<TARGET_FILE_DIR:ec_cuda>)
# OSDs of a release that the plugin does not know, among those of 20.
add_test(NAME ceph20.next COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/next_release_test --plugin-dir $<TARGET_FILE_DIR:ec_cuda>)
# Rules of several OSDs on a host, beside isa's.
add_test(NAME ceph20.rules COMMAND ${inside} ${CMAKE_CURRENT_SOURCE_DIR}/rule_test --plugin-dir $<TARGET_FILE_DIR:ec_cuda>)
set_tests_properties(ceph20.mutant ceph20.adopt ceph20.next ceph20.rules PROPERTIES LABELS ceph20 RESOURCE_LOCK cluster COST 1000 TIMEOUT 1200 SKIP_RETURN_CODE 77)

# Beside Ceph's own plugins of each release.
if(TARGET roles_test)
  foreach(release 18 20)
    ec_in_release(${release} inside)
    add_test(NAME ceph${release}.roles COMMAND ${inside} $<TARGET_FILE:roles_test>)
    set_tests_properties(ceph${release}.roles PROPERTIES LABELS ceph${release} TIMEOUT 1200 SKIP_RETURN_CODE 77)
  endforeach()
endif()

# What is measured there: that it runs, and that the bytes are right.
if(TARGET ec_bench_ceph)
  add_test(NAME ceph20.bench COMMAND ${inside} $<TARGET_FILE:ec_bench_ceph> --ops encode decode decode-one
    encode-chunks encode-chunks-one encode-delta apply-delta decode-chunks decode-chunks-one
    --sizes 16K,256K --rounds 1 --sample-ms 0)
  set_tests_properties(ceph20.bench PROPERTIES LABELS ceph20 TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()

# The tables of all releases that are here, and of one that never was.
if(TARGET next_isa)
  add_test(NAME ceph_interface COMMAND ${with_python} ${CMAKE_CURRENT_SOURCE_DIR}/interface_test ${PROJECT_SOURCE_DIR}
                                       $<TARGET_FILE:next_isa> ${EC_CEPH_RELEASES})
  set_tests_properties(ceph_interface PROPERTIES LABELS door SKIP_RETURN_CODE 77)
endif()
