// The error of an AUROC as DeLong, DeLong and Clarke-Pearson 1988 estimate it, by the ranks of Sun
// and Xu 2014. The exams of a patient are one cluster, as in Obuchowski 1997.
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "train_temporal/metrics/intervals/fold_scores.h"
#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {

// An AUROC that is a mean over parts, and how far each patient moves it.
struct AurocParts {
  struct Patient {
    std::size_t part = 0;   // the first that has exams of the patient
    double of[2] = {0, 0};  // its healthy and its ill exams: structural components − AUROC,
    bool has[2] = {false, false};  // by the exams of their class and the parts
  };
  MetricValue auroc;
  std::map<std::size_t, Patient> patients;
};
// Parts without exams of both classes are left out.
AurocParts auroc_parts(std::span<const FoldScores> parts);

// Undefined where a part has a single patient of a class, who has no variance.
MetricValue delong_covariance(const AurocParts& a, const AurocParts& b);

// A paper states these: the standard error, the normal interval within [0, 1] and, of a difference,
// the two-sided p-value.
struct DeLong {
  Estimate estimate;
  MetricValue error, p;
};
DeLong delong_auroc(const AurocParts& parts, double level);
DeLong delong_difference(const AurocParts& a, const AurocParts& b, double level);

}  // namespace coldframe::temporal
