#include "common/system/gpu_libraries.h"

#include <dlfcn.h>
#include <array>
#include <filesystem>

#include "common/text/text.h"

namespace coldframe {

void* find_in_library(const char* library, const char* name, std::string& problem) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  problem = "this build has none";
  // An installation has programs and libraries that use LibTorch in lib/coldframe/torch-VERSION,
  // and other libraries in lib/coldframe; a build folder has test programs in tests, libraries in
  // bin.
  const auto above = folder.parent_path();
  for (const auto& path : {folder / library, above / library, above / "bin" / library}) {
    if (!std::filesystem::exists(path, error)) continue;
    void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (void* const found = opened ? dlsym(opened, name) : nullptr) return found;
    problem = dlerror();
  }
  return nullptr;
}

}  // namespace coldframe

namespace coldframe::cuda_driver {

namespace {

// Signatures and numbers of the CUDA driver API (cuda.h), whose binary interface is stable:
// CUresult and CUdevice are int, 0 is CUDA_SUCCESS.
constexpr int kComputeCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeCapabilityMinor = 76;

struct Driver {
  int count = 0;
  std::string reason;
  int (*get_name)(char* name, int length, int device) = nullptr;
  int (*get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*get_bus_id)(char* id, int length, int device) = nullptr;
  int (*get_total_memory)(std::size_t* bytes, int device) = nullptr;
};

Driver load() {
  Driver driver;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open until the end
  if (!library) {
    driver.reason = concat("there is no NVIDIA driver (", ::dlerror(), ")");
    return driver;
  }
  int (*init)(unsigned) = nullptr;
  int (*get_count)(int*) = nullptr;
  if (!find_function(library, "cuInit", init) ||
      !find_function(library, "cuDeviceGetCount", get_count) ||
      !find_function(library, "cuDeviceGetName", driver.get_name) ||
      !find_function(library, "cuDeviceGetAttribute", driver.get_attribute) ||
      !find_function(library, "cuDeviceGetPCIBusId", driver.get_bus_id) ||
      !find_function(library, "cuDeviceTotalMem_v2", driver.get_total_memory)) {
    driver.reason = "libcuda.so.1 lacks the functions of a CUDA driver";
    return driver;
  }
  int error = init(0);
  if (error == 0) error = get_count(&driver.count);
  if (error != 0) {
    driver.count = 0;
    driver.reason = concat("the NVIDIA driver reports error ", error,
                           error == 100 ? " (no device)" : "", "; nvidia-smi tells more");
  } else if (driver.count == 0) {
    driver.reason = "the NVIDIA driver sees no device; check CUDA_VISIBLE_DEVICES and nvidia-smi";
  }
  return driver;
}

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

}  // namespace

int device_count() {
  return driver().count;
}
std::string reason_for_none() {
  return driver().reason;
}

std::string device_name(int device) {
  std::array<char, 256> name = {};
  if (driver().count == 0 || driver().get_name(name.data(), 255, device) != 0) return "unknown";
  return name.data();
}

int compute_capability(int device) {
  int major = 0, minor = 0;
  if (driver().count == 0 || driver().get_attribute(&major, kComputeCapabilityMajor, device) != 0 ||
      driver().get_attribute(&minor, kComputeCapabilityMinor, device) != 0) {
    return 0;
  }
  return 10 * major + minor;
}

std::string pci_bus_id(int device) {
  std::array<char, 32> id = {};
  if (driver().count == 0 || driver().get_bus_id(id.data(), 31, device) != 0) return "";
  return id.data();
}

std::uint64_t total_memory(int device) {
  std::size_t bytes = 0;
  if (driver().count == 0 || driver().get_total_memory(&bytes, device) != 0) return 0;
  return bytes;
}

}  // namespace coldframe::cuda_driver

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
