// Puts whole patients into parts so that every part gets its share of every class.
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
  std::vector<std::size_t> per_class;  // labels of each stratum: class or bin
};

// Sorted by patient, so that the outcome does not depend on the order of exams in a cache.
std::vector<PatientGroup> group_by_patient(const Targets& targets,
                                           const std::vector<std::string>& patients,
                                           std::span<const std::size_t> exams);

// The part (0 … shares.size() − 1) of each group. `shares` are positive and sum to 1. Greedy in the
// manner of scikit-learn's StratifiedGroupKFold, for unequal shares too and with one aim put first:
// no class is absent from a part if moving a patient helps, large parts being served before small
// ones. Depends on the groups and the key only.
std::vector<std::size_t> assign_groups(std::span<const PatientGroup> groups,
                                       std::span<const double> shares,
                                       std::initializer_list<std::uint64_t> key);

// A split says which exams train, which choose (early stopping, temperature, threshold) and which
// are held out. All parts are disjoint by patient. Only labelled exams take part. With several
// targets, parts without a class of one of them are a warning where they would be an error
// otherwise.

struct Split {
  std::size_t repeat = 0, fold = 0;
  std::vector<std::size_t> train, validation, test;  // indices of exams, ascending
};

struct SplitSet {
  std::vector<Split> splits;
  std::vector<std::string> warnings;  // small or one-class parts, exams left out
};

// The patient of every exam as the cache has it, "" where there is none, each in one spelling
// (spelling.h): two people taken for one cost little, while one taken for two would be on both
// sides of a split. `warnings` tells of those. ConfigError where it is unclear (EqualNumbers).
std::vector<std::string> known_patients(std::span<const cache::ExamInfo> exams,
                                        EqualNumbers numbers, std::vector<std::string>& warnings);

// What splits keep together of every exam: its patient, or its own id with `exam_is_patient`.
// ConfigError when a labelled exam has none and the option was not given: says how many there are;
// also when it was given although the cache knows a patient of several labelled exams.
std::vector<std::string> patients_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                     bool exam_is_patient, std::vector<std::string>& warnings,
                                     EqualNumbers numbers = EqualNumbers::kAsk);

// Groups of patients that share a value, named by their values ("A", or "A + B" where a patient has
// both). ConfigError where a labelled exam has no value of `column`.
std::vector<std::string> groups_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                   const std::vector<std::string>& patients,
                                   const std::vector<std::string>& values,
                                   const std::string& column);

// K folds, stratified and grouped by patient, for each of `repeats`; each fold's training part is
// split again by patient, about a fifth of its patients becoming the validation part. ConfigError:
// fewer patients, or fewer patients of a class, than folds (with the counts). Groups of patients
// may stand for patients; `what` names them then.
SplitSet make_folds(const Targets& targets, const std::vector<std::string>& patients,
                    std::size_t folds, std::uint64_t seed, std::size_t repeats = 1,
                    const std::string& what = "patient");

// Each group (of patients, or a patient itself) is held out once, in a fold of its own;
// the validation parts are divided by patient. ConfigError unless every class has two groups or
// more.
SplitSet leave_one_out(const Targets& targets, const std::vector<std::string>& patients,
                       const std::vector<std::string>& groups, std::uint64_t seed,
                       const std::string& what = "patient");

// One split, about 60/20/20 % of patients, stratified.
SplitSet make_holdout(const Targets& targets, const std::vector<std::string>& patients,
                      std::uint64_t seed, const std::string& what = "patient");

// The manifest's `split` column: train, val (or valid, validation), test. A validation part that is
// missing is taken from the training part by patient.
bool has_split_column(std::span<const cache::ExamInfo> exams);
SplitSet split_from_column(std::span<const cache::ExamInfo> exams, const Targets& targets,
                           const std::vector<std::string>& patients, std::uint64_t seed);

// splits.csv: repeat,fold,exam,patient,part (train, validation, test).
std::string splits_to_csv(const std::vector<Split>& splits, std::span<const cache::ExamInfo> exams,
                          const std::vector<std::string>& patients);
// DataError: unknown exams or parts, an exam twice in a fold or in two test parts of a repeat (it
// would count twice), a patient in two parts (by the file
// or by the cache), a fold without training or test exams.
SplitSet splits_from_csv(const CsvTable& table, std::span<const cache::ExamInfo> exams,
                         const Targets& targets, const std::vector<std::string>& patients,
                         std::uint64_t seed);

// DataError naming the patient when one is in two parts of a split.
void check_patients_apart(const Split& split, const std::vector<std::string>& patients);

// All ways of splitting share this: the inner validation part and the checks at the end.

using NamedPart = std::pair<const char*, const std::vector<std::size_t>*>;
std::array<NamedPart, 3> parts_of(const Split& split);  // train, validation, test

// Moves about a fifth of the training part's patients to the validation part, stratified.
// ConfigError when a single patient would have to serve both.
void take_validation(Split& split, const Targets& targets, const std::vector<std::string>& patients,
                     std::uint64_t seed);

// DataError: an empty part, a patient in two parts, a class absent from the training part. A class
// absent from the validation part is a warning.
void check_parts(const Split& split, const Targets& targets,
                 const std::vector<std::string>& patients, std::vector<std::string>& warnings);

}  // namespace coldframe::temporal
