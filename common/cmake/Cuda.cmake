# Sets COLDFRAME_HAS_CUDA. The .cu files take raw pointers and a stream and include no LibTorch
# header, so that any CUDA compiler builds them, whatever LibTorch's own find module says.
set(COLDFRAME_HAS_CUDA OFF)
if(NOT COLDFRAME_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # 75: Turing, the oldest that CUDA 13 compiles for. Code for 8.0 runs on 8.6 and 8.9 as it is (CUDA C++ Programming
    # Guide, "Binary Compatibility"); 90 also as PTX, for devices to come.
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
    set(CMAKE_CUDA_STANDARD 17)
    enable_language(CUDA)
    set(COLDFRAME_HAS_CUDA ON)
  elseif(COLDFRAME_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COLDFRAME_CUDA=ON, but no nvcc was found; put it on PATH or set CUDACXX")
  endif()
endif()
message(STATUS "Coldframe: CUDA kernels ${COLDFRAME_HAS_CUDA}")
