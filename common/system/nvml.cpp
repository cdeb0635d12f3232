#include "common/system/nvml.h"

#include <dlfcn.h>

#include "common/system/library.h"
#include "common/text/text.h"

namespace coldframe::nvml {
namespace {

// Signatures of nvml.h, whose binary interface is stable: nvmlReturn_t is int (0: success),
// nvmlDevice_t an opaque pointer.
using Device = void*;
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

struct Library {
  int (*by_bus)(const char*, Device*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*processes)(Device, unsigned*, void*) = nullptr;  // absent before driver 510
  bool ready = false;
};

Library load() {
  Library nvml;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open
  int (*init)() = nullptr;
  nvml.ready = library && find_function(library, "nvmlInit_v2", init) &&
               find_function(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus) &&
               find_function(library, "nvmlDeviceGetHandleByIndex_v2", nvml.by_index) &&
               find_function(library, "nvmlDeviceGetUtilizationRates", nvml.utilization) &&
               find_function(library, "nvmlDeviceGetMemoryInfo", nvml.memory) && init() == 0;
  if (nvml.ready) find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
  return nvml;
}

// Without room for their list, NVML tells only how many they are.
unsigned count_processes(const Library& nvml, Device device) {
  unsigned count = 0;
  if (nvml.processes) nvml.processes(device, &count, nullptr);
  return count;
}

}  // namespace

std::optional<Usage> usage(const std::string& name) {
  static const Library nvml = load();
  if (name.empty() || !nvml.ready) return std::nullopt;
  Device device = nullptr;
  std::int64_t index = 0;
  const bool found = parse_int(name, index)
                         ? nvml.by_index(static_cast<unsigned>(index), &device) == 0
                         : nvml.by_bus(name.c_str(), &device) == 0;
  Utilization load{};
  Memory memory{};
  if (!found || nvml.utilization(device, &load) != 0 || nvml.memory(device, &memory) != 0)
    return std::nullopt;
  return Usage{static_cast<double>(load.gpu), memory.used, memory.total,
               count_processes(nvml, device)};
}

}  // namespace coldframe::nvml
