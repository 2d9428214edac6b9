# Writes OUTPUT, a header with the commit that is being built; it is touched only when that changes. A source archive has
# no git: EC_COMMIT of the environment says it. The repository of a folder around the archive is another project's.
set(commit unknown)
if(NOT "$ENV{EC_COMMIT}" STREQUAL "")
  set(commit $ENV{EC_COMMIT})
elseif(EXISTS ${SOURCE_DIR}/.git)
  # A hook of git, of any repository, may be what builds.
  foreach(name GIT_DIR GIT_COMMON_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY)
    unset(ENV{${name}})
  endforeach()
  execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0 AND described)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#pragma once
namespace ec::bench {
inline constexpr const char* commit = "@commit@";
}
]])
