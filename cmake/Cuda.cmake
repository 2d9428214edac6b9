# CUDA is found or left out. What is compiled by nvcc is one fat binary for all chips, embedded as data and
# handed to the driver at run time; nothing links the CUDA runtime or the driver.
set(EC_CUDA_ARCHS 75 80 90 100 120
    CACHE STRING "Compute capabilities that get machine code; the last also gets PTX. Empty: for the emulated driver alone")

set(EC_CUDA_FOUND OFF)
set(missing "")
string(TOUPPER "${EC_WITH_CUDA}" with_cuda)
if(NOT with_cuda MATCHES "^(AUTO|ON|YES|TRUE|Y|1|OFF|NO|FALSE|N|0)$")
  message(FATAL_ERROR "EC_WITH_CUDA is '${EC_WITH_CUDA}'; allowed are AUTO, and ON, YES, TRUE, Y, 1 or their opposites")
elseif(with_cuda)
  find_program(EC_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  # nvcc looks for its toolkit beside the name that it is called by, which may be a link. ccache goes by the link's name.
  file(REAL_PATH "${EC_NVCC}" EC_REAL_NVCC)
  if(NOT EC_REAL_NVCC MATCHES "/nvcc$")
    set(EC_REAL_NVCC ${EC_NVCC})
  endif()
  find_path(EC_CUDA_INCLUDE cuda.h HINTS ${EC_REAL_NVCC}/../.. ENV CUDA_PATH PATHS /usr/local/cuda
            PATH_SUFFIXES include targets/x86_64-linux/include)
  if(EC_NVCC AND EC_CUDA_INCLUDE)
    set(EC_CUDA_FOUND ON)
  elseif(EC_NVCC)
    set(missing ", no cuda.h beside ${EC_NVCC}, in CUDA_PATH or in /usr/local/cuda")
  else()
    set(missing ", no nvcc on PATH, in CUDA_PATH or in /usr/local/cuda")
  endif()
  if(missing AND NOT with_cuda STREQUAL "AUTO")
    message(FATAL_ERROR "EC_WITH_CUDA is ${EC_WITH_CUDA}${missing}")
  endif()
endif()
if(EC_CUDA_FOUND)
  list(JOIN EC_CUDA_ARCHS ", " chips)
  message(STATUS "GPU back end: ON, with machine code for compute capability ${chips}")
else()
  message(STATUS "GPU back end: OFF${missing}")
endif()

# ec_embed(TARGET NAME BYTES [FILE]): links what the directive BYTES of the assembler says into TARGET, between NAME and
# NAME_end. FILE: the file that the directive reads.
function(ec_embed target name bytes)
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/${name}.s)
  file(GENERATE OUTPUT ${assembly} CONTENT
".section .rodata
.balign 64
.global ${name}
.hidden ${name}
${name}:
${bytes}
.global ${name}_end
.hidden ${name}_end
${name}_end:
.byte 0
.section .note.GNU-stack,\"\",@progbits
")
  set_source_files_properties(${assembly} PROPERTIES LANGUAGE ASM GENERATED ON OBJECT_DEPENDS "${ARGN}")
  target_sources(${target} PRIVATE ${assembly})
endfunction()

# ec_add_fatbin(TARGET SOURCE [NO_PTX]): compiles SOURCE (.cu) to a fat binary and links it into TARGET as the
# bytes between ec_fatbin_<name> and ec_fatbin_<name>_end. NO_PTX: machine code alone, for no later chip. <name>.ptxas
# beside the fat binary holds the compiler's report of registers and memory.
function(ec_add_fatbin target source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "NO_PTX" "" "")
  cmake_path(GET source STEM name)
  if(NOT EC_CUDA_ARCHS)
    # The number that a fat binary begins with. The emulated driver has the kernels itself.
    ec_embed(${target} ec_fatbin_${name} ".long 0xba55ed50")
    return()
  endif()
  cmake_path(ABSOLUTE_PATH source)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  # The blanks of a path end a target of a depfile.
  string(REPLACE " " "\\ " depfile_target "${fatbin}")
  set(codes "")
  foreach(arch ${EC_CUDA_ARCHS})
    list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  if(NOT arg_NO_PTX)
    list(GET EC_CUDA_ARCHS -1 newest)
    list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
  endif()
  add_custom_command(
    OUTPUT ${fatbin}
    COMMAND sh -c [["$@" 2>"$0" || { cat "$0" >&2; exit 1; }]] ${name}.ptxas
            ${EC_REAL_NVCC} -fatbin -std=c++17 --expt-relaxed-constexpr -O3 -Xptxas -v -Xfatbin -compress-all
            --threads 0 ${codes} -I ${PROJECT_SOURCE_DIR}
            -MD -MF ${fatbin}.d -MT ${depfile_target} -o ${fatbin} ${source}
    DEPENDS ${source}
    DEPFILE ${fatbin}.d
    COMMENT "nvcc ${name}.cu"
    VERBATIM)
  ec_embed(${target} ec_fatbin_${name} ".incbin \"${fatbin}\"" ${fatbin})
endfunction()
