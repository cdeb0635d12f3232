// A run's configuration as a list of names and values.
#pragma once

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// Nested objects as "outer.inner", lists of words as "a, b" or "none", and the settings that
// `--search` tries as their number.
KeyValues flat_config(Json config);

}  // namespace coldframe::temporal
