// The exams of a cache with their labels and patients, checked before anything is computed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/files/csv.h"
#include "train_temporal/data/covariates.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/run/options/options.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {

struct Cohort {
  SequenceReader cache;
  std::optional<CsvTable> labels;  // --labels
  Targets targets;  // exams without a present frame are unlabelled here: no model can see them
  std::vector<std::string> patients;  // of every exam
  std::vector<std::size_t> patient_number;
  std::vector<std::string> notes;  // for the log: what was decided or left out
  std::vector<std::string> warnings;
  bool copies_across_parts = false;              // of features; divide() sees to that
  std::vector<CovariateColumn> covariates = {};  // of --covariates, see covariates.h

  const std::vector<cache::ExamInfo>& exams() const { return cache.exams(); }
  std::vector<std::size_t> labeled() const { return targets.labeled_exams(); }
  // Keeps those of a column's values that are of labelled exams.
  std::vector<std::string> of_labeled(const std::vector<std::string>& values) const;
  // exam_column() of the cache and --labels.
  std::vector<std::string> column(const std::string& name, const std::string& option);
  void warn(const std::vector<std::string>& said);  // each warning once
};

// `known`: the targets of a trained model, in its order; empty: as the options ask. A column of
// another name may stand for the only target of a model.
Cohort open_cohort(const TargetOptions& options, const std::vector<Target>& known);

// Splits as the options ask; `how` describes it in a few words. Adds warnings to the cohort's.
std::vector<Split> divide(Cohort& cohort, const TrainOptions& options, std::string& how);

}  // namespace coldframe::temporal
