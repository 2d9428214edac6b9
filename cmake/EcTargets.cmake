# What every target of ours shares: the include root, warnings, sanitizers.
add_library(ec_common INTERFACE)
target_include_directories(ec_common INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/interfaces)
target_compile_options(ec_common INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${EC_WERROR}>:-Werror>)
# GCC 12 sees overlapping copies in its own std::string when it inlines at -O2 (its bug 105651).
target_compile_options(ec_common INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# fmt header-only: the plugin must not add a library to what a storage daemon has to find.
target_link_libraries(ec_common INTERFACE Threads::Threads fmt::fmt-header-only)
if(EC_SANITIZE)
  target_compile_options(ec_common INTERFACE -fsanitize=${EC_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
  target_link_options(ec_common INTERFACE -fsanitize=${EC_SANITIZE})
endif()

# ec_add_room(NAME SOURCES...): a static library that is one room of the house.
function(ec_add_room name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC ec_common)
endfunction()
