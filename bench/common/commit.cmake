# Writes OUTPUT, a header with the commit that is being built; it is touched only when that changes. A source archive has
# no git: EC_COMMIT of the environment says it.
set(commit unknown)
if(DEFINED ENV{EC_COMMIT})
  set(commit $ENV{EC_COMMIT})
endif()
execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE_DIR}
                OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed EQUAL 0 AND described)
  set(commit ${described})
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#pragma once
namespace ec::bench {
inline constexpr const char* commit = "@commit@";
}
]])
