#include "train_temporal/run/options/covariate_options.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/run/options/options.h"
#include "train_temporal/run/options/rows.h"

namespace coldframe::temporal {
namespace {

// NAME, NAME:number or NAME:category; other colons belong to the name.
CovariateChoice::Column column_of(const std::string& word) {
  for (const bool category : {false, true}) {
    const std::string kind = category ? ":category" : ":number";
    if (word.size() > kind.size() && word.ends_with(kind))
      return {word.substr(0, word.size() - kind.size()), category};
  }
  return {word, std::nullopt};
}

void take_columns(const std::string& words, CovariateChoice& covariates) {
  for (const std::string& word : split(words, ',')) {
    CovariateChoice::Column column = column_of(trim(word));
    if (column.name.empty())
      throw ConfigError("--covariates: expected names of columns with commas between them");
    if (std::ranges::count(covariates.columns, column.name, &CovariateChoice::Column::name) > 0)
      throw ConfigError(concat("--covariates: '", column.name, "' is named twice"));
    covariates.columns.push_back(std::move(column));
  }
}

}  // namespace

void add_covariates(OptionRows& rows, CovariateChoice& covariates) {
  rows.parsed(
      "covariates", "A,B",
      [&](auto&, const std::string& words) { take_columns(words, covariates); },
      "what a visit knows besides its images: columns of exams of the cache or of --labels; a "
      "column of numbers is one (A:category says otherwise), any other holds categories");
  rows.word("covariates-at", covariates.at_frames, {{"head", false}, {"frames", true}}, "WHERE",
            "head (the default): a linear term beside the head; frames: behind the features of "
            "every frame")
      .show_none()
      .needs("covariates", "A,B");
}

void resolve_covariates(TrainOptions& options) {
  const CovariateChoice& covariates = options.covariates;
  if (covariates.asked() && options.default_compare && options.model != kCovariatesAlone)
    options.compare.emplace_back(kCovariatesAlone);
  if (!covariates.asked() && options.trains(kCovariatesAlone))
    throw ConfigError(
        "the model covariates sees these alone, and none are given; add --covariates, or leave it "
        "out");
  const auto models = options.models();
  const auto takes_none = [](const std::string& name) {
    const NamedModel* model = find_model(name);
    return model != nullptr && !model->architecture->takes_covariates;
  };
  if (covariates.asked() && std::ranges::all_of(models, takes_none))
    throw ConfigError(concat("--covariates: ", options.model,
                             " sees how exams were acquired and takes none; take another --model"));
}

}  // namespace coldframe::temporal
