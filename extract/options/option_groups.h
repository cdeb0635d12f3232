// The options of `extract`, a row for each: name, place, bounds, help, and its key in the recipe.
// The rows refer to `options`, so that they set it, and record what it holds.
#pragma once

#include <vector>

#include "common/cli/option_rows.h"
#include "extract/options/options.h"

namespace coldframe::extract {

using OptionRows = std::vector<OptionRow>;

// What is read: --input, which of its frames, how files become frames, how patients are named.
OptionRows input_options(ExtractOptions& options);
// The backbone, its weights, and its outputs that become the features.
OptionRows backbone_options(ExtractOptions& options);
// What happens to a frame before the backbone sees it.
OptionRows pixel_options(ExtractOptions& options);
// Augmented versions of the frames, beside them in the cache.
OptionRows view_options(ExtractOptions& options);
// What computes, how much at once, and within which memory.
OptionRows machine_options(ExtractOptions& options);
// The cache, and what it stores of each frame.
OptionRows storage_options(ExtractOptions& options);
// How the job treats exams, parts and failures, and what it prints.
OptionRows run_options(ExtractOptions& options);

// What no row says alone, once the rows have set the options, of words or of a recipe: what goes
// together, and what follows. ConfigError; DataError for a mask that cannot be read.
void finish_input(ExtractOptions& options);
void finish_pixels(ExtractOptions& options);
void finish_backbone(ExtractOptions& options);

// What only words leave open.
void size_tiles(const GivenWords& given, ExtractOptions& options);
void finish_views(const GivenWords& given, ExtractOptions& options);
void require_one_choice_of_devices(const GivenWords& given);

}  // namespace coldframe::extract
