// Features lie on the device, in memory, or in the cache while models are fitted: here that is
// chosen.
#pragma once

#include <cstdint>
#include <string>

#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

struct Placement {
  Residence where = Residence::kMemory;
  std::string text;  // "17.6 MiB, streamed from the cache: more than half of …"
};

// kAuto: the device when the features take at most half of its memory, or of `budget` (bytes;
// 0: none); else memory when there is enough; else the cache. On the CPU the device is the memory.
Placement place_features(Residence asked, std::uint64_t bytes, const torch::Device& device,
                         std::uint64_t budget);

// True when so many bytes leave a tenth of the memory that is free now, or when that is unknown.
bool fits_into_memory(std::uint64_t bytes);

}  // namespace coldframe::temporal
