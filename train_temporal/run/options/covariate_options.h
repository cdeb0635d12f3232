// `coldframe train --covariates` can be told this: what a visit knows besides its images, and where
// a model takes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace coldframe::temporal {

class OptionRows;
struct TrainOptions;

struct CovariateChoice {
  struct Column {
    std::string name;
    std::optional<bool> category;  // none: by its values
  };
  std::vector<Column> columns;
  bool at_frames = false;  // behind every frame's features; else beside the head

  bool asked() const { return !columns.empty(); }
};

void add_covariates(OptionRows& rows, CovariateChoice& covariates);
// ConfigError for models that have no covariates to take.
void resolve_covariates(TrainOptions& options);

}  // namespace coldframe::temporal
