// What `predict` says of exams without labels, as a table.
#pragma once

#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "train_temporal/run/apply/ensemble.h"
#include "train_temporal/run/apply/unlike_training.h"

namespace coldframe::temporal {

std::vector<std::size_t> exams_with_frames(const cache::CacheReader& cache);

// For each target the decision on each exam or frame, from Ensemble::scores().
std::vector<std::vector<int>> decisions(const Ensemble& ensemble,
                                        const std::vector<std::vector<double>>& scores);

// exam,patient[,frame],p_<class>…,predicted, see predictions.h, and unlike_training,unlike_rank
// where `unlike` has an entry for each exam.
std::string prediction_table(const cache::CacheReader& cache, const std::vector<std::size_t>& exams,
                             const Ensemble& ensemble,
                             const std::vector<std::vector<double>>& scores,
                             const std::vector<OodScore>& unlike = {});

}  // namespace coldframe::temporal
