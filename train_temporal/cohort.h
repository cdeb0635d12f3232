// The exams of a cache with their labels and patients, checked before anything is computed.
#pragma once

#include <string>
#include <vector>

#include "cache/reader.h"
#include "train_temporal/options.h"
#include "train_temporal/report/report.h"
#include "train_temporal/splits/labels.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {

struct Cohort {
  cache::CacheReader cache;
  Labels labels;  // exams without a present frame are unlabelled here: no model can see them
  std::vector<std::string> patients;  // of every exam
  std::vector<std::size_t> patient_number;
  std::vector<std::string> warnings;

  const std::vector<cache::ExamInfo>& exams() const { return cache.exams(); }
  std::vector<std::size_t> labeled() const { return labels.labeled_exams(); }
};

// `known_classes`: of a trained model, see LabelOptions.
Cohort open_cohort(const TargetOptions& options, const std::vector<std::string>& known_classes);

// As the options ask; `how` describes it in a few words. Adds warnings to the cohort's.
std::vector<Split> divide(Cohort& cohort, const TrainOptions& options, std::string& how);

// Of the exams given by index.
DataOverview overview(const Cohort& cohort, const std::vector<std::size_t>& used);

// DataError listing the differences when the two recipes' features may not be compared.
void require_same_features(const cache::Recipe& trained, const cache::Recipe& found,
                           const std::filesystem::path& cache);

}  // namespace coldframe::temporal
