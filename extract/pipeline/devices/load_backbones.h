// Loads the backbone on every device of a job, in the precision that the job computes in.
#pragma once

#include <optional>

#include "cache/store/reader.h"
#include "extract/frames/input/exam_list.h"
#include "extract/options/options.h"
#include "extract/pipeline/devices/compute_devices.h"

namespace coldframe::extract {

// `auto` is decided once: by the cache that the job continues, else by the first device;
// further devices compute in what the first one computes in.
// CacheError: the cache to continue is of another precision. SystemError: a device strays in it.
// `shared`: where several processes make a cache, the first decides for all of them, and each
// computes on devices of the same kind unless --allow-mixed-precision.
void load_backbones(ComputeDevices& devices, const ExtractOptions& options,
                    const frames::ExamList& input, const cache::CacheReader* cached,
                    const cache::Location* shared = nullptr);

}  // namespace coldframe::extract
