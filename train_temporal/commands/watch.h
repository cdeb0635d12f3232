// `coldframe predict --bundle B --watch FOLDER`: exams that arrive in a folder are predicted, each
// once.
#pragma once

#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// An arrival is an entry of the folder, a file or a folder of files; names that begin with a dot or
// end in .part, .partial or .tmp are being written. It is complete when it has its marker, or when
// its files have kept sizes and times for `quiet_s`. Its result appears whole as
// OUT/results/NAME.json; an arrival that has one is done, whoever was killed since.
// OUT/predictions.csv is made of all results, whenever a tenth of them is new and before the watch
// waits or ends. Returns when a stop is requested, or with `once` when nothing that is complete is
// left. ConfigError: OUT belongs to another bundle or another process.
int watch_folder(const ApplyOptions& options);

}  // namespace coldframe::temporal
