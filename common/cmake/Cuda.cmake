# Sets COLDFRAME_HAS_CUDA. The .cu files take raw pointers and a stream and include no LibTorch
# header; the plugin for graphs includes those of LibTorch, which are written for CUDA 13.
function(coldframe_is_cuda_13 result nvcc)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE told ERROR_QUIET)
  if(NOT told MATCHES "release 13\\.")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

set(COLDFRAME_HAS_CUDA OFF)
if(NOT COLDFRAME_CUDA STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    # Behind PATH: the toolkit's usual folder, and the wheels that common/bootstrap installs where there is a GPU.
    file(GLOB wheels ${CMAKE_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/cu13/bin)
    find_program(COLDFRAME_NVCC nvcc PATHS /usr/local/cuda/bin ${wheels} VALIDATOR coldframe_is_cuda_13)
    if(COLDFRAME_NVCC)
      set(CMAKE_CUDA_COMPILER ${COLDFRAME_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
    # 75: Turing, the oldest that CUDA 13 compiles for. Code for 8.0 runs on 8.6 and 8.9 as it is (CUDA C++ Programming
    # Guide, "Binary Compatibility"); 90 also as PTX, for devices to come.
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
    set(CMAKE_CUDA_STANDARD 20)
    enable_language(CUDA)
    foreach(kind STANDARD EXTENSION)  # CMake 3.25 does not know them
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endforeach()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
      message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}; the kernels need 13. "
        "Name that of CUDA 13 in CUDACXX, or leave the kernels out with -DCOLDFRAME_CUDA=OFF")
    endif()
    set(COLDFRAME_HAS_CUDA ON)
  elseif(COLDFRAME_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COLDFRAME_CUDA=ON, but no nvcc of CUDA 13 was found; put it on PATH or set CUDACXX")
  endif()
endif()
message(STATUS "Coldframe: CUDA kernels ${COLDFRAME_HAS_CUDA}")
