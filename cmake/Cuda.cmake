# CUDA is found or left out. What is compiled by nvcc is one fat binary for all chips, embedded as data and
# handed to the driver at run time; nothing links the CUDA runtime or the driver.
set(EC_CUDA_ARCHS 75 80 90 100 120
    CACHE STRING "Compute capabilities that get machine code; the last also gets PTX. Empty: for the emulated driver alone")

set(EC_CUDA_FOUND OFF)
if(NOT EC_WITH_CUDA STREQUAL "OFF")
  find_program(EC_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(EC_NVCC)
    cmake_path(GET EC_NVCC PARENT_PATH EC_CUDA_BIN)
    find_path(EC_CUDA_INCLUDE cuda.h HINTS ${EC_CUDA_BIN}/../include ${EC_CUDA_BIN}/../targets/x86_64-linux/include)
  endif()
  if(EC_NVCC AND EC_CUDA_INCLUDE)
    set(EC_CUDA_FOUND ON)
  elseif(EC_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "EC_WITH_CUDA=ON, but nvcc or cuda.h was not found (on PATH, in CUDA_PATH, /usr/local/cuda)")
  endif()
endif()
if(EC_CUDA_FOUND)
  list(JOIN EC_CUDA_ARCHS ", " chips)
  message(STATUS "GPU back end: ON, with machine code for compute capability ${chips}")
else()
  message(STATUS "GPU back end: OFF")
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
            ${EC_NVCC} -fatbin -std=c++17 --expt-relaxed-constexpr -O3 -Xptxas -v -Xfatbin -compress-all
            --threads 0 ${codes} -I ${PROJECT_SOURCE_DIR}
            -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${source}
    DEPENDS ${source}
    DEPFILE ${fatbin}.d
    COMMENT "nvcc ${name}.cu"
    VERBATIM)
  ec_embed(${target} ec_fatbin_${name} ".incbin \"${fatbin}\"" ${fatbin})
endfunction()
