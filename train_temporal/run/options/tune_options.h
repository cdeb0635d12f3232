// `coldframe train --tune` can be told this: how the end of the ViT is trained with the model.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::temporal {

class OptionRows;
struct TrainOptions;

// The cache's recipe names random weights by their seed; they have no file.
inline constexpr const char* kRandomWeights = "random";
// The control of a tuned model: the same model on the cached features.
inline constexpr const char* kFrozen = "frozen";

struct TuneChoice {
  std::string weights;         // as `extract --weights`, or kRandomWeights; "": nothing is tuned
  std::filesystem::path from;  // a run whose models are gone on from; empty: they are fitted first

  bool asked() const { return !weights.empty(); }
};

void add_tune(OptionRows& rows, TrainOptions& options);
// ConfigError for what does not go with it.
void check_tune(const TrainOptions& options);

}  // namespace coldframe::temporal
