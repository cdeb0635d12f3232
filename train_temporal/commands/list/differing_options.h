// In which options several runs differ, for `train --list`.
#pragma once

#include <string>
#include <vector>

#include "common/files/json.h"

namespace coldframe::temporal {

struct DifferingOptions {
  std::vector<std::string> names;                // "fit.learning_rate", in the order of the runs
  std::vector<std::vector<std::string>> values;  // by run, then by name; "" where a run has it not
};

// `configs`: each run's config.json. Left out are the columns that the list has anyway, versions,
// digests, and what follows from other options. Nothing differs where there is one run.
DifferingOptions differing_options(const std::vector<Json>& configs);

}  // namespace coldframe::temporal
