# CUDA is found or left out. What is compiled by nvcc is one fat binary for all chips, embedded as data and
# handed to the driver at run time; nothing links the CUDA runtime or the driver.
set(EC_CUDA_ARCHS 75 80 90 100 120 CACHE STRING "Compute capabilities that get machine code; the last also gets PTX")

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

# ec_add_fatbin(TARGET SOURCE): compiles SOURCE (.cu) to a fat binary and links it into TARGET as the bytes
# between ec_fatbin_<name> and ec_fatbin_<name>_end.
function(ec_add_fatbin target source)
  cmake_path(GET source STEM name)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  set(assembly ${CMAKE_CURRENT_BINARY_DIR}/${name}_fatbin.s)
  set(codes "")
  foreach(arch ${EC_CUDA_ARCHS})
    list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(GET EC_CUDA_ARCHS 0 oldest)
  list(GET EC_CUDA_ARCHS -1 newest)
  list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
  add_custom_command(
    OUTPUT ${fatbin}
    COMMAND ${EC_NVCC} -fatbin -std=c++17 --expt-relaxed-constexpr -O3 -Xfatbin -compress-all --threads 0 ${codes} -I ${PROJECT_SOURCE_DIR} -MD -MF
            ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${fatbin}.d
    COMMENT "nvcc ${source}"
    VERBATIM)
  file(CONFIGURE OUTPUT ${assembly} CONTENT
".section .rodata
.balign 64
.global ec_fatbin_@name@
.hidden ec_fatbin_@name@
ec_fatbin_@name@:
.incbin \"@fatbin@\"
.global ec_fatbin_@name@_end
.hidden ec_fatbin_@name@_end
ec_fatbin_@name@_end:
.byte 0
.section .note.GNU-stack,\"\",@progbits
" @ONLY)
  set_source_files_properties(${assembly} PROPERTIES LANGUAGE ASM OBJECT_DEPENDS ${fatbin})
  target_sources(${target} PRIVATE ${assembly})
endfunction()
