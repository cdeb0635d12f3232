// configs/metadata.json tells MONAI's tools about a bundle.
#pragma once

#include "common/files/json.h"

namespace coldframe::bundle {

// docs.monai.io, "MONAI Bundle Specification". `facts`: bundle.json. `metrics`:
// metrics/summary.json.
Json monai_metadata(const Json& facts, const Json& metrics);

}  // namespace coldframe::bundle
