// Assigns whole patients to parts, stratified by class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "train_temporal/labels/labels.h"

namespace coldframe::temporal {

// The labelled exams of one patient.
struct PatientGroup {
  std::string patient;
  std::vector<std::size_t> exams;
  std::vector<std::size_t> per_class;  // number of labels in each stratum (class or bin)
};

// Sorted by patient, so that the split does not depend on the order of exams in a cache.
std::vector<PatientGroup> group_by_patient(const Targets& targets,
                                           const std::vector<std::string>& patients,
                                           std::span<const std::size_t> exams);

// The part (0 … shares.size() − 1) of each group. `shares`: target fractions, positive, with sum 1.
// Greedy like scikit-learn's StratifiedGroupKFold, but with unequal fractions and one priority: no
// part lacks a class if moving a patient prevents it, large parts first. Depends on the groups and
// the key only.
std::vector<std::size_t> assign_groups(std::span<const PatientGroup> groups,
                                       std::span<const double> shares,
                                       std::initializer_list<std::uint64_t> key);

// A split divides the labelled exams into those for training, validation (early stopping,
// temperature, threshold) and testing (held out), disjoint by patient. With several targets, a part
// that lacks a class of one target is a warning where it would otherwise be an error.

struct Split {
  std::size_t repeat = 0, fold = 0;
  std::vector<std::size_t> train, validation, test;  // indices of exams, ascending
};

struct SplitSet {
  std::vector<Split> splits;
  std::vector<std::string> warnings;  // small or one-class parts, exams left out
};

// The patient of every exam as in the cache, "" if unknown, each in one spelling (spelling.h):
// merging two people costs little, while splitting one in two would leak across a split. `warnings`
// lists merged ones. ConfigError if it is unclear (EqualNumbers).
std::vector<std::string> known_patients(std::span<const cache::ExamInfo> exams,
                                        EqualNumbers numbers, std::vector<std::string>& warnings);

// The grouping key of every exam for splits: its patient, or its own id with `exam_is_patient`.
// ConfigError if labelled exams have no patient and the option was not given (states how many), or
// if it was given although the cache has a patient with several labelled exams.
std::vector<std::string> patients_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                     bool exam_is_patient, std::vector<std::string>& warnings,
                                     EqualNumbers numbers = EqualNumbers::kAsk);

// Groups of patients that share a value, named by their values ("A", or "A + B" if a patient has
// both). ConfigError if a labelled exam has no value of `column`.
std::vector<std::string> groups_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                   const std::vector<std::string>& patients,
                                   const std::vector<std::string>& values,
                                   const std::string& column);

// K folds, stratified and grouped by patient, for each of `repeats`. About a fifth of the patients
// of each fold's training part become the validation part. A class of fewer patients than folds
// is missing in some test parts, which is a warning. ConfigError: fewer patients than folds, one
// patient of a class, or fewer with an event than folds (with the counts). `patients` may be groups
// of patients; `what` then names them.
SplitSet make_folds(const Targets& targets, const std::vector<std::string>& patients,
                    std::size_t folds, std::uint64_t seed, std::size_t repeats = 1,
                    const std::string& what = "patient");

// Holds out each group (of patients, or a single patient) once, in a fold of its own; validation
// parts are split by patient. ConfigError unless every class has two groups or more.
SplitSet leave_one_out(const Targets& targets, const std::vector<std::string>& patients,
                       const std::vector<std::string>& groups, std::uint64_t seed,
                       const std::string& what = "patient");

// One split, about 60/20/20 % of patients, stratified.
SplitSet make_holdout(const Targets& targets, const std::vector<std::string>& patients,
                      std::uint64_t seed, const std::string& what = "patient");

// The manifest's `split` column: train, val (or valid, validation), test. Without a validation
// part, one is taken from the training part by patient.
bool has_split_column(std::span<const cache::ExamInfo> exams);
SplitSet split_from_column(std::span<const cache::ExamInfo> exams, const Targets& targets,
                           const std::vector<std::string>& patients, std::uint64_t seed);

// splits.csv: repeat,fold,exam,patient,part (train, validation, test).
std::string splits_to_csv(const std::vector<Split>& splits, std::span<const cache::ExamInfo> exams,
                          const std::vector<std::string>& patients);
// DataError: unknown exams or parts, an exam twice in a fold or in two test parts of a repeat (it
// would count twice), a patient in two parts (by the file or by the cache), a fold without training
// or test exams.
SplitSet splits_from_csv(const CsvTable& table, std::span<const cache::ExamInfo> exams,
                         const Targets& targets, const std::vector<std::string>& patients,
                         std::uint64_t seed);

// DataError, which names the patient, if one is in two parts of a split.
void check_patients_apart(const Split& split, const std::vector<std::string>& patients);

// Shared by all ways of splitting: the inner validation part and the final checks.

using NamedPart = std::pair<const char*, const std::vector<std::size_t>*>;
std::array<NamedPart, 3> parts_of(const Split& split);  // train, validation, test

// Moves about a fifth of the training part's patients to the validation part, stratified.
// ConfigError if there is only one patient for both.
void take_validation(Split& split, const Targets& targets, const std::vector<std::string>& patients,
                     std::uint64_t seed);

// DataError: an empty part, a patient in two parts, a class absent from the training part. A class
// absent from the validation part is a warning.
void check_parts(const Split& split, const Targets& targets,
                 const std::vector<std::string>& patients, std::vector<std::string>& warnings);

}  // namespace coldframe::temporal
