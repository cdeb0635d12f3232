// What a report says of labels on each scale.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

struct ScaleWords {
  Scale scale;
  // The main metric within a sentence: "an AUROC", "a quadratic kappa".
  const char* article;
  bool lower_case;
  const char* undefined;  // where no held-out part has this
  std::string (*about_figures)(const TargetReport&);
  const char* about_ranks;  // which figures are means over folds
  const char* choices;      // "Early stopping" …, of the validation part
  const char* uncertain;    // where that part is small
  const char* loss;         // what curves show
  // Ranks across folds: what is named so, who is like the one held out, and what folds would hold.
  const char *rank_article, *alike, *enough;
};
const ScaleWords& words_of(Scale scale);

}  // namespace coldframe::temporal
