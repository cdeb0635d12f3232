// What a bundle says of itself to MONAI's tools: configs/metadata.json.
#pragma once

#include "common/files/json.h"

namespace coldframe::bundle {

// docs.monai.io, "MONAI Bundle Specification". `facts`: bundle.json. `metrics`:
// metrics/summary.json.
Json monai_metadata(const Json& facts, const Json& metrics);

}  // namespace coldframe::bundle
