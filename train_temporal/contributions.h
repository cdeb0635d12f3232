// Which frame spoke: what every frame of an exam adds to the probability that a run gives it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/reader.h"
#include "train_temporal/explain/integrated_gradients.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::temporal {

struct ExplainedExam {
  std::size_t exam = 0;      // index into the cache
  std::size_t of_class = 0;  // whose probability is explained
  Contributions values;      // averaged over the models, as the probability is
  double largest_gap = 0;    // of any model
};

// Whether there is a probability to explain: the first target is of exams and of classes.
bool can_be_explained(const std::vector<Target>& targets);

// Of the first target. All on the dataset's device. The dataset must hold the exam.
ExplainedExam explain_exam(std::span<TrainedModel> models, const Dataset& dataset, std::size_t exam,
                           std::size_t of_class);

// exam,frame,time_s,class,contribution,probability,baseline: a row for every frame of the cache, 0
// for one that is missing; `probability` and `baseline` are the exam's, and contributions add up to
// their difference.
std::string contributions_csv(const cache::CacheReader& cache, const ModelCard& card,
                              const std::vector<ExplainedExam>& exams);

// How far the sums are from what they explain, against kCompleteness, in words.
std::string completeness_text(const std::vector<ExplainedExam>& exams);
double largest_gap(const std::vector<ExplainedExam>& exams);

}  // namespace coldframe::temporal
