# What every target of ours shares: the include root, warnings, hardening, sanitizers (ec_flags), and fmt (ec_common).
add_library(ec_flags INTERFACE)
target_include_directories(ec_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/interfaces)
target_compile_options(ec_flags INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${EC_WERROR}>:-Werror>)
# GCC 12 sees overlapping copies in its own std::string when it inlines at -O2 (its bug 105651), and at -O3
# vectors of bytes longer than memory.
target_compile_options(ec_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overread>")
define_property(TARGET PROPERTY EC_IS_TEST INITIALIZE_FROM_VARIABLE EC_IS_TEST)
define_property(TARGET PROPERTY EC_IN_HOSTS INITIALIZE_FROM_VARIABLE EC_IN_HOSTS)
set(is_test $<BOOL:$<TARGET_PROPERTY:EC_IS_TEST>>)
if(EC_SANITIZE)
  target_compile_options(ec_flags INTERFACE -fsanitize=${EC_SANITIZE} -fno-omit-frame-pointer
                                            -fno-sanitize-recover=all)
  # Of a test it is enough to see what it does to memory. With all checks it takes three times as long to compile.
  target_compile_options(ec_flags INTERFACE $<${is_test}:-O0> $<${is_test}:-fno-sanitize=undefined>)
  target_link_options(ec_flags INTERFACE -fsanitize=${EC_SANITIZE})
else()
  # Debian's hardening flags. _FORTIFY_SOURCE needs an optimised build, and sanitizers check more.
  set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  target_compile_options(ec_flags INTERFACE -fstack-protector-strong -Wformat -Werror=format-security
                                            $<${optimised}:-U_FORTIFY_SOURCE> $<${optimised}:-D_FORTIFY_SOURCE=2>)
  target_link_options(ec_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
  target_compile_options(ec_flags INTERFACE $<$<NOT:${is_test}>:-fstack-clash-protection>)
  # Hosts may have short stacks (interfaces/ec/ec.h). Tests measure calls, but those of this CPU's instructions alone.
  # The frame of a kernel's tiles has a bound of its own.
  set(in_hosts $<BOOL:$<TARGET_PROPERTY:EC_IN_HOSTS>>)
  target_compile_options(ec_flags INTERFACE $<$<AND:${in_hosts},${optimised}>:-Wframe-larger-than=8192>)
  # Tests wait for what they call. Optimised in full they take twice as long to compile.
  target_compile_options(ec_flags INTERFACE $<${is_test}:-O1> $<${is_test}:-g1>)
endif()

# fmt as a library of our own: the plugin must not add one to what a storage daemon has to find.
add_library(ec_fmt STATIC support/fmt.cpp)
target_include_directories(ec_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(ec_fmt PRIVATE ec_flags)

add_library(ec_common INTERFACE)
target_link_libraries(ec_common INTERFACE ec_flags ec_fmt Threads::Threads)

# ec_add_room(NAME SOURCES...): a static library that is one room of the house.
function(ec_add_room name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC ec_common)
endfunction()
