// Arranges the exams of a cache as sequences: merges frames of several streams into one input, and
// joins the visits of a patient into one sequence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/files/csv.h"
#include "train_temporal/data/covariates.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/run/options.h"

namespace coldframe::temporal {

// Stands for the exams' start times, unless a column has this name.
inline constexpr const char* kStartTime = "start_time";

// Merges and joins the exams of `cache` as requested. Warns of streams that never share an instant
// and of patients that were merged. ConfigError and DataError state what prevents it.
std::vector<std::string> arrange(SequenceReader& cache, const Arrangement& arrangement,
                                 EqualNumbers of_patients);

// Warns of streams that held-out exams have but no exam of their fold's training part has.
std::vector<std::string> unlearnt_streams(const SequenceReader& cache,
                                          const std::vector<Split>& splits);

// Prepends all earlier exams of its patient to every exam. `column`: cache column with the time of
// each visit, as a date or in days, or kStartTime. Exams at the same time are not joined to each
// other; exams without a patient or without frames of their own do not change. ConfigError: no such
// column, no patients at all, or a time that is invalid, or missing although the patient has other
// exams.
void join_visits(SequenceReader& cache, const std::string& column, EqualNumbers of_patients,
                 std::vector<std::string>& warnings);

// The exams of a cache with labels and patients, validated before anything is computed.

struct Cohort {
  SequenceReader cache;
  std::optional<CsvTable> labels;  // --labels
  Targets targets;  // exams without a present frame count as unlabelled: no model can see them
  std::vector<std::string> patients;  // of every exam
  std::vector<std::size_t> patient_number;
  std::vector<std::string> notes;  // for the log: decisions and omissions
  std::vector<std::string> warnings;
  bool copies_across_parts = false;              // of features; divide() handles that
  std::vector<CovariateColumn> covariates = {};  // of --covariates, see covariates.h

  const std::vector<cache::ExamInfo>& exams() const { return cache.exams(); }
  std::vector<std::size_t> labeled() const { return targets.labeled_exams(); }
  // The values of a column for labelled exams only.
  std::vector<std::string> of_labeled(const std::vector<std::string>& values) const;
  // exam_column() for the cache and --labels.
  std::vector<std::string> column(const std::string& name, const std::string& option);
  void warn(const std::vector<std::string>& said);  // each warning once
};

// `known`: the targets of a trained model, in its order; empty: as the options request. If a model
// has a single target, a column of another name may provide it.
Cohort open_cohort(const TargetOptions& options, const std::vector<Target>& known);

// Makes the splits that the options request and describes them briefly in `how`. Adds warnings to
// the cohort's.
std::vector<Split> divide(Cohort& cohort, const TrainOptions& options, std::string& how);

}  // namespace coldframe::temporal
