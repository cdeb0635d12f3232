// The libraries with CUDA code, which lie beside the program and are opened when a CUDA device
// computes, so that one program runs with and without CUDA's own libraries.
#pragma once

#include <dlfcn.h>
#include <cstdint>
#include <optional>
#include <string>

namespace coldframe {

// Symbol `name` of `library` (a file's name); null, with the reason in `problem`, where the build
// had no CUDA compiler, or the library does not load here.
void* find_in_library(const char* library, const char* name, std::string& problem);

// A function of a library that dlopen() opened; false where it lacks it.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace coldframe

// The NVIDIA driver tells about its devices through libcuda.so.1, which is opened at run time: no
// CUDA toolkit and no LibTorch needed, and no driver is no error.

namespace coldframe::cuda_driver {

int device_count();  // 0 without a driver; CUDA_VISIBLE_DEVICES is honoured

// Why device_count() is 0: "no NVIDIA driver (libcuda.so.1: …)", "the driver reports error 100".
std::string reason_for_none();

// Devices are numbered 0 … device_count() - 1.
std::string device_name(int device);
int compute_capability(int device);      // 90 for 9.0
std::uint64_t total_memory(int device);  // bytes
std::string pci_bus_id(int device);      // "0000:41:00.0", as NVML takes it

}  // namespace coldframe::cuda_driver

// Load of NVIDIA GPUs as NVML reports it, through libnvidia-ml.so.1 opened at run time; a machine
// without it is no error.

namespace coldframe::nvml {

struct Usage {
  double utilization = 0;          // percent of the last sample period in which a kernel ran
  std::uint64_t memory_bytes = 0;  // taken on the device, by all processes
  std::uint64_t total_bytes = 0;
  unsigned processes = 0;  // that compute on it; 0 where the driver does not tell
};

// The use of the device with this PCI bus id ("00000000:41:00.0") or NVML index ("0"); empty when
// there is no such device, no NVML, or no name. NVML counts all devices, whatever
// CUDA_VISIBLE_DEVICES says.
std::optional<Usage> usage(const std::string& device);

}  // namespace coldframe::nvml
