# Finds LibTorch in the wheel that common/bootstrap installs (or in CMAKE_PREFIX_PATH) and defines
# imported targets of our own. The wheel's find_package(Torch) is not used: it demands a CUDA toolkit
# even of programs that never touch a GPU. Our programs link torch_cpu and c10 only; the CUDA
# libraries are opened at run time when a CUDA device is asked for (common/torch/device.cpp).
file(GLOB wheel_torch ${CMAKE_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch)
find_path(COLDFRAME_TORCH_INCLUDE torch/csrc/api/include/torch/torch.h
  HINTS ${wheel_torch} PATH_SUFFIXES include REQUIRED
  DOC "LibTorch's include folder; run common/bootstrap to install it")
find_library(COLDFRAME_TORCH_CPU torch_cpu HINTS ${COLDFRAME_TORCH_INCLUDE}/../lib REQUIRED)
find_library(COLDFRAME_C10 c10 HINTS ${COLDFRAME_TORCH_INCLUDE}/../lib REQUIRED)
file(STRINGS ${COLDFRAME_TORCH_INCLUDE}/torch/headeronly/version.h version REGEX "define TORCH_VERSION_M(AJ|IN)OR")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" COLDFRAME_TORCH_VERSION "${version}")
get_filename_component(COLDFRAME_TORCH_LIB ${COLDFRAME_TORCH_CPU} DIRECTORY)

add_library(coldframe_libtorch INTERFACE)
target_include_directories(coldframe_libtorch SYSTEM INTERFACE
  ${COLDFRAME_TORCH_INCLUDE} ${COLDFRAME_TORCH_INCLUDE}/torch/csrc/api/include)
# libcudart and libcupti, which torch_cpu itself needs, lie in the wheel's nvidia folder.
file(GLOB nvidia_lib ${COLDFRAME_TORCH_LIB}/../../nvidia/cu*/lib)
# Without OpenMP, ATen/Parallel.h would turn at::parallel_for into a plain loop without a word. At run time LibTorch
# and our code share the wheel's libgomp.so.1.
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_compile_options(coldframe_libtorch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
target_link_libraries(coldframe_libtorch INTERFACE ${COLDFRAME_TORCH_CPU} ${COLDFRAME_C10} Threads::Threads)
target_link_options(coldframe_libtorch INTERFACE ${OpenMP_CXX_FLAGS}
  -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags)
list(APPEND CMAKE_BUILD_RPATH ${COLDFRAME_TORCH_LIB} ${nvidia_lib})
