// Fits of one model differ by chance beside patients: a claim about what a model finds, and not
// about the fits at hand, has to know by how much.
#pragma once

#include <span>
#include <vector>

#include "train_temporal/metrics/intervals.h"

namespace coldframe::temporal {

// The figures of several fits alone, [part][fit]. A part is a fold, or the folds of a repeat
// together; NaN where a figure is undefined.
using FiguresOfFits = std::vector<std::vector<double>>;

struct MetricOfFits {
  FiguresOfFits over_folds, pooled;
};

// Of every metric of the table, which is that of `folds`. `fits`: [fit] the same folds, as scored
// by each fit of a fold alone. Without these, repeats of the split are taken for fits of one part;
// empty where there is one repeat.
std::vector<MetricOfFits> figures_of_fits(const MetricTable& table,
                                          std::span<const FoldScores> folds,
                                          std::span<const std::vector<FoldScores>> fits);

// Takes into the intervals of a − b that the fits of both differ. The figure of averaged fits has
// the variance of the mean of so many fits in each part, with Student's quantile; the reaches of
// patients and of fits are joined as those of independent terms of a sum (Zou and Donner 2008).
// Leaves them as they are where `a` and `b` do not have the same number of fits, or too few (less
// than two degrees of freedom).
void include_fits(std::vector<PairedDifference>& differences, const std::vector<MetricOfFits>& a,
                  const std::vector<MetricOfFits>& b, double level);

}  // namespace coldframe::temporal
