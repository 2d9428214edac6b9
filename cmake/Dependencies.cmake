# Everything here is a Debian package; tools/setup installs them all.
find_package(Threads REQUIRED)
# Its program_options, linked into all programs, since each release of Debian has another version; the plugin and the libraries do without.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED OPTIONAL_COMPONENTS program_options)
if(NOT TARGET Boost::program_options AND (EC_BUILD_TESTS OR EC_BUILD_BENCH))
  message(FATAL_ERROR "Boost.Program_options not found: install libboost-program-options-dev (or run tools/setup), or "
                      "build no programs: -DEC_BUILD_TESTS=OFF -DEC_BUILD_BENCH=OFF")
endif()
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

find_path(ISAL_INCLUDE_DIR isa-l/erasure_code.h)
find_library(ISAL_LIBRARY isal)
if(NOT ISAL_INCLUDE_DIR OR NOT ISAL_LIBRARY)
  message(FATAL_ERROR "Intel ISA-L not found: install libisal-dev (or run tools/setup)")
endif()
add_library(isal UNKNOWN IMPORTED)
set_target_properties(isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY}
                                      INTERFACE_INCLUDE_DIRECTORIES ${ISAL_INCLUDE_DIR})

# The checksums of the file tool. The shared library: it picks the processor's best instructions.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY NAMES libxxhash.so)
if(Boost_PROGRAM_OPTIONS_FOUND AND (NOT XXHASH_INCLUDE_DIR OR NOT XXHASH_LIBRARY))
  message(FATAL_ERROR "xxHash not found: install libxxhash-dev (or run tools/setup)")
endif()

# Ceph's public bufferlist. Its symbols come from the host that loads the plugin.
find_path(RADOS_INCLUDE_DIR rados/buffer.h)
if(NOT RADOS_INCLUDE_DIR)
  message(FATAL_ERROR "rados/buffer.h not found: install libradospp-dev (or run tools/setup)")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang finds one comparison in it ambiguous in C++20. The same header with that one spelled out.
  set(rados_mended ${PROJECT_BINARY_DIR}/mended)
  file(COPY ${RADOS_INCLUDE_DIR}/rados DESTINATION ${rados_mended} PATTERN buffer.h EXCLUDE)
  file(READ ${RADOS_INCLUDE_DIR}/rados/buffer.h rados_buffer)
  string(REPLACE "it == end() ?" "it == const_iterator(end()) ?" rados_buffer "${rados_buffer}")
  file(CONFIGURE OUTPUT ${rados_mended}/rados/buffer.h CONTENT "${rados_buffer}" @ONLY)
  set(RADOS_INCLUDE_DIR ${rados_mended})
endif()
