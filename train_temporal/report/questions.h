// Questions to a report beside the figures that every report has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"

namespace coldframe::temporal {

struct Questions {
  // These are for binary targets.
  std::optional<double> threshold;                       // decides; none: the validation part's
  std::optional<double> prevalence;                      // of the predictive values
  std::optional<double> at_specificity, at_sensitivity;  // the other one there

  std::vector<std::string> subgroups;        // columns
  std::vector<std::string> characteristics;  // columns that describe the cohort by class
  bool figures = false;                      // drawings and tables as files of their own
  bool without_thumbnails = false;           // in the page
  std::size_t relaxed_frames = 0;            // targets per frame: at the borders of segments
  std::string aggregate;  // patient or a column: what counts as one; empty: exams

  bool of_decisions() const { return threshold || prevalence || at_specificity || at_sensitivity; }
};

// Those that were asked, for config.json and summary.json; an empty object where there are none.
Json questions_json(const Questions& questions);

}  // namespace coldframe::temporal
