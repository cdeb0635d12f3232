// Questions to a report beside the figures that every report has, with the options that ask them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cli/option_rows.h"
#include "common/files/json.h"

namespace coldframe::temporal {

struct Questions {
  std::optional<double> threshold;  // of decisions; none: the validation part's
  std::optional<double> prevalence, at_specificity, at_sensitivity;
  std::optional<std::size_t> level;                     // of intervals, in percent; none: 95
  std::vector<std::string> subgroups, characteristics;  // columns
  std::string aggregate;  // patient or a column: what counts as one; empty: exams
  bool figures = false, without_thumbnails = false;

  // Those of them that two finished runs answer without their cache.
  Questions of_predictions() const {
    Questions some;
    some.prevalence = prevalence;
    some.at_specificity = at_specificity;
    some.at_sensitivity = at_sensitivity;
    some.level = level;
    return some;
  }
  bool of_decisions() const { return threshold || prevalence || at_specificity || at_sensitivity; }
};

// `rows`: an OptionRows, or what else takes names with their values.
template <class Rows>
void add_questions(Rows& rows, Questions& questions) {
  rows.number("threshold", questions.threshold, share(),
              "binary: decide for the positive class from this probability on (default: as the "
              "validation part chose)");
  // Nearer to 0 or 1 odds overflow.
  rows.number("prevalence", questions.prevalence, share(1e-9),
              "binary: predictive values where this share is positive");
  rows.number("at-specificity", questions.at_specificity, share(),
              "binary: the sensitivity at this specificity");
  rows.number("at-sensitivity", questions.at_sensitivity, share(),
              "binary: the specificity at this sensitivity");
  rows.number("level", questions.level, between(90, 99),
              "of the figures' intervals, in percent (default: 95); claims of the verdict take 99");
  rows.names("subgroups", questions.subgroups,
             "all figures for each value of these columns of the cache or of --labels, too");
  rows.names("characteristics", questions.characteristics,
             "a table of the cohort by class (Table 1) of these columns");
  rows.text("aggregate", questions.aggregate, "WHAT",
            "figures are of patients (`patient`), whose exams' predictions are averaged, or of a "
            "patient's exams with one value of a column (`study`)");
  rows.toggle("figures", questions.figures,
              "write drawings as SVG and tables as CSV and LaTeX into a folder `figures` "
              "beside the report, too");
  rows.toggle("without-thumbnails", questions.without_thumbnails,
              "show no pictures of the frames in the report, although the cache has them");
}

// Those that were asked, for config.json and summary.json; an empty object where there are none.
Json questions_json(Questions questions);

}  // namespace coldframe::temporal
