// The NVIDIA driver tells about its devices through libcuda.so.1, which is opened at run time: no
// CUDA toolkit and no LibTorch needed, and no driver is no error.
#pragma once

#include <cstdint>
#include <string>

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
