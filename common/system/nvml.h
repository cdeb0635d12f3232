// Load of NVIDIA GPUs as NVML reports it, through libnvidia-ml.so.1 opened at run time; a machine
// without it is no error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
