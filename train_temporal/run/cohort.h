// The exams of a cache become sequences: frames of several streams become one input, and the
// visits of a patient one sequence.
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

// The name for exams' start times, where no column has it.
inline constexpr const char* kStartTime = "start_time";

// Merges and joins the exams of `cache` as it is asked, and warns where streams do not meet and of
// patients that are taken as one.
// ConfigError and DataError say why not.
std::vector<std::string> arrange(SequenceReader& cache, const Arrangement& arrangement,
                                 EqualNumbers of_patients);

// Warns of streams that held-out exams have and no exam of their fold's training part.
std::vector<std::string> unlearnt_streams(const SequenceReader& cache,
                                          const std::vector<Split>& splits);

// Reads every exam with all earlier ones of its patient before it. `column`: of the cache, the time
// of each visit as a date or in days, or kStartTime. Exams at the same time do not see each other,
// exams without a patient or without a frame of their own stay as they are. ConfigError: no such
// column, no patient at all, a time that cannot be read or is missing where the patient has other
// exams.
void join_visits(SequenceReader& cache, const std::string& column, EqualNumbers of_patients,
                 std::vector<std::string>& warnings);

// The exams of a cache with their labels and patients, checked before anything is computed.

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
