#include "train_temporal/data/residence.h"

#include "common/system/cuda_driver.h"
#include "common/system/memory.h"
#include "common/text/text.h"

namespace coldframe::temporal {

bool fits_into_memory(std::uint64_t bytes) {
  const std::uint64_t available = available_bytes();
  return available == 0 || bytes < available - available / 10;
}

Placement place_features(Residence asked, std::uint64_t bytes, const torch::Device& device,
                         std::uint64_t budget) {
  const std::string size = human_bytes(bytes);
  const bool cpu = device.is_cpu();
  const std::string on_device = cpu ? ", loaded to memory" : concat(", loaded to ", device.str());
  if (asked == Residence::kDevice) return {asked, size + on_device + ", as --features says"};
  if (asked == Residence::kMemory) return {asked, size + ", loaded to memory, as --features says"};
  if (asked == Residence::kStream) {
    return {asked, size + ", streamed from the cache, as --features says"};
  }
  const std::uint64_t most =
      budget > 0 || cpu ? budget : cuda_driver::total_memory(static_cast<int>(device.index()));
  const bool within = most == 0 || bytes <= most / 2;
  const bool memory = fits_into_memory(bytes);
  if (within && (memory || !cpu)) return {Residence::kDevice, size + on_device};
  const std::string why =
      within ? "more than the memory that is free"
             : concat("more than half of ", budget > 0 ? "--memory-budget " : "the device's ",
                      human_bytes(most));
  if (!cpu && memory) return {Residence::kMemory, concat(size, ", loaded to memory: ", why)};
  return {Residence::kStream, concat(size, ", streamed from the cache: ", why)};
}

}  // namespace coldframe::temporal
