// `coldframe train --covariates` can be told this: what a visit knows besides its images, and where
// a model takes it.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <vector>

namespace coldframe::temporal {

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

// The words of the options of covariates, before parsing.
struct CovariateWords {
  std::vector<std::string> columns;
  std::string at;
};
void add_covariates(boost::program_options::options_description& description,
                    CovariateWords& words);
// ConfigError for a column named twice, and for options and models that have no covariates to take.
void apply_covariates(const CovariateWords& words, TrainOptions& options);

}  // namespace coldframe::temporal
