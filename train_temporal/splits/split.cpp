#include "train_temporal/splits/split.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/splits/split_assign.h"
#include "train_temporal/splits/split_parts.h"

namespace coldframe::temporal {
namespace {

// Streams of the split's random numbers.
enum Stream : std::uint64_t { kFolds = 1, kHoldout = 2 };

// ConfigError unless there are `needed` patients, and as many of each class.
void require_patients(const Targets& targets, const std::vector<PatientGroup>& groups,
                      std::size_t needed, const std::string& purpose, const std::string& what) {
  if (groups.size() < needed) {
    throw ConfigError(concat(plural(groups.size(), what), " with a label, but ", purpose,
                             " needs at least ", needed));
  }
  if (targets.size() > 1) return;  // a class that is missing somewhere is then a warning
  std::vector<std::size_t> patients(targets.strata(), 0);
  for (const PatientGroup& group : groups) {
    for (std::size_t c = 0; c < patients.size(); ++c) patients[c] += group.per_class[c] > 0;
  }
  std::vector<std::string> counts;
  std::size_t least = needed;
  for (std::size_t c = 0; c < patients.size(); ++c) {
    if (!targets.is_class(c)) continue;
    counts.push_back(concat(targets.stratum_name(c), " ", plural(patients[c], what)));
    least = std::min(least, patients[c]);
  }
  if (least == needed) return;
  if (targets[0].is_timed())
    throw ConfigError(concat(
        purpose, " needs at least ", needed, " ", what, "s with an event in '", targets[0].event,
        "', but there ", least == 1 ? "is " : "are ", least,
        least >= 2 ? concat("; take --folds ", least) : std::string("; too few to learn from")));
  throw ConfigError(concat(purpose, " needs at least ", needed, " ", what, "s of every class of '",
                           targets.names(), "', but there are: ", join(counts, ", "),
                           "; leave the rare class out (empty labels)",
                           least >= 2 ? concat(" or take --folds ", least) : ""));
}

std::vector<std::vector<std::size_t>> exams_of_parts(const std::vector<PatientGroup>& groups,
                                                     std::span<const double> shares,
                                                     std::initializer_list<std::uint64_t> key) {
  const std::vector<std::size_t> part = assign_groups(groups, shares, key);
  std::vector<std::vector<std::size_t>> exams(shares.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    exams[part[g]].insert(exams[part[g]].end(), groups[g].exams.begin(), groups[g].exams.end());
  }
  for (auto& one : exams) std::ranges::sort(one);
  return exams;
}

}  // namespace

namespace {

// Splits by exam would train on a patient whom they hold out.
void refuse_known_patients(const std::vector<std::string>& patients, const Targets& targets) {
  std::map<std::string, std::size_t> exams_of;
  for (std::size_t exam : targets.labeled_exams())
    if (!patients[exam].empty()) ++exams_of[patients[exam]];
  std::erase_if(exams_of, [](const auto& patient) { return patient.second < 2; });
  if (exams_of.empty()) return;
  const auto& [patient, count] = *exams_of.begin();
  throw ConfigError(
      concat("--exam-is-patient, but the cache names patients, and ", exams_of.size(),
             exams_of.size() == 1 ? " has" : " have", " several exams ('", patient, "' has ", count,
             "); leave the option out, so that no patient is on both sides of a split"));
}

}  // namespace

std::vector<std::string> known_patients(std::span<const cache::ExamInfo> exams,
                                        EqualNumbers numbers, std::vector<std::string>& warnings) {
  std::vector<std::string> patients;
  for (const cache::ExamInfo& exam : exams) patients.push_back(trim(exam.patient));
  if (numbers == EqualNumbers::kAsk)
    if (const auto two = find_equal_numbers(patients))
      throw ConfigError(concat("the patients '", patients[two->first], "' (exam '",
                               exams[two->first].id, "') and '", patients[two->second], "' (exam '",
                               exams[two->second].id,
                               "') are equal as numbers: if they are one "
                               "person, give --equal-numbers same; if they are two, give "
                               "--equal-numbers different"));
  if (const std::string changes = unify_spelling(patients, numbers); !changes.empty())
    warnings.push_back(
        concat("patients that differ in spelling alone (case, spaces, forms of Unicode",
               numbers == EqualNumbers::kSame ? ", zeros" : "",
               ") are taken as one person, so that nobody is on both sides of a split, ", changes,
               "; if they are different people, give them ids that differ more"));
  return patients;
}

std::vector<std::string> patients_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                     bool exam_is_patient, std::vector<std::string>& warnings,
                                     EqualNumbers numbers) {
  std::vector<std::string> patients = known_patients(exams, numbers, warnings), missing;
  if (exam_is_patient) {
    refuse_known_patients(patients, targets);
    std::ranges::transform(exams, patients.begin(), &cache::ExamInfo::id);
  }
  for (std::size_t exam : targets.labeled_exams()) {
    if (patients[exam].empty()) missing.push_back(exams[exam].id);
  }
  if (missing.empty()) return patients;
  if (missing.size() == targets.labeled()) {
    throw ConfigError(
        "no labelled exam has a patient; splits are made by patient: give a column 'patient', or "
        "say --exam-is-patient if every exam is of another person");
  }
  throw ConfigError(concat(missing.size(), " of ", plural(targets.labeled(), "labelled exam"),
                           " have no patient, the first '", missing.front(),
                           "'; splits are made by patient: give these a patient, or leave their "
                           "labels empty"));
}

std::vector<std::string> groups_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                   const std::vector<std::string>& patients,
                                   const std::vector<std::string>& values,
                                   const std::string& column) {
  std::vector<std::string> without;
  std::map<std::string, std::set<std::string>> linked;  // values that patients share
  std::map<std::string, std::string> value_of;          // one of each patient
  for (std::size_t exam : targets.labeled_exams()) {
    if (values[exam].empty()) without.push_back(exams[exam].id);
    linked[values[exam]].insert(values[exam]);
    const auto [first, added] = value_of.emplace(patients[exam], values[exam]);
    linked[first->second].insert(values[exam]);
    linked[values[exam]].insert(first->second);
  }
  if (!without.empty())
    throw ConfigError(concat("--group ", column, ": ", plural(without.size(), "labelled exam"),
                             " without a value, the first '", without.front(),
                             "'; give these one, or leave their labels empty"));
  std::map<std::string, std::string> name_of;
  for (const auto& [value, neighbours] : linked) {
    if (name_of.contains(value)) continue;
    std::set<std::string> reached = {value};
    for (std::vector<std::string> next = {value}; !next.empty();) {
      const std::string one = next.back();
      next.pop_back();
      for (const std::string& other : linked[one])
        if (reached.insert(other).second) next.push_back(other);
    }
    const std::string name = join({reached.begin(), reached.end()}, " + ");
    for (const std::string& one : reached) name_of[one] = name;
  }
  std::vector<std::string> groups(exams.size());
  for (std::size_t exam : targets.labeled_exams()) groups[exam] = name_of[values[exam]];
  return groups;
}

SplitSet make_folds(const Targets& targets, const std::vector<std::string>& patients,
                    std::size_t folds, std::uint64_t seed, std::size_t repeats,
                    const std::string& what) {
  if (folds < 2) throw ConfigError(concat("--folds ", folds, ": at least 2 are needed"));
  const std::vector<std::size_t> exams = targets.labeled_exams();
  const std::vector<PatientGroup> groups = group_by_patient(targets, patients, exams);
  require_patients(targets, groups, folds, concat("--folds ", folds), what);
  const std::vector<double> shares(folds, 1.0 / static_cast<double>(folds));
  SplitSet result;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    const auto held_out = exams_of_parts(groups, shares, {seed, kFolds, repeat});
    for (std::size_t fold = 0; fold < folds; ++fold) {
      Split split{repeat, fold, {}, {}, held_out[fold]};
      std::ranges::set_difference(exams, split.test, std::back_inserter(split.train));
      take_validation(split, targets, patients, seed);
      check_parts(split, targets, patients, result.warnings);
      result.splits.push_back(std::move(split));
    }
  }
  return result;
}

SplitSet leave_one_out(const Targets& targets, const std::vector<std::string>& patients,
                       const std::vector<std::string>& groups, std::uint64_t seed,
                       const std::string& what) {
  const std::vector<std::size_t> exams = targets.labeled_exams();
  const std::vector<PatientGroup> held_out = group_by_patient(targets, groups, exams);
  require_patients(targets, held_out, 2, concat("--folds ", what, "s"), what);
  SplitSet result;
  for (std::size_t fold = 0; fold < held_out.size(); ++fold) {
    Split split{0, fold, {}, {}, held_out[fold].exams};
    std::ranges::sort(split.test);
    std::ranges::set_difference(exams, split.test, std::back_inserter(split.train));
    take_validation(split, targets, patients, seed);
    check_parts(split, targets, patients, result.warnings);
    result.splits.push_back(std::move(split));
  }
  return result;
}

SplitSet make_holdout(const Targets& targets, const std::vector<std::string>& patients,
                      std::uint64_t seed, const std::string& what) {
  const std::vector<PatientGroup> groups =
      group_by_patient(targets, patients, targets.labeled_exams());
  require_patients(targets, groups, 3, "a split into training, validation and test part", what);
  constexpr std::array kShares = {0.6, 0.2, 0.2};
  auto parts = exams_of_parts(groups, kShares, {seed, kHoldout});
  SplitSet result;
  result.splits.push_back({0, 0, std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  check_parts(result.splits[0], targets, patients, result.warnings);
  return result;
}

void check_patients_apart(const Split& split, const std::vector<std::string>& patients) {
  std::map<std::string, std::string> part_of;
  for (const auto& [name, exams] : parts_of(split)) {
    for (std::size_t exam : *exams) {
      const auto [known, added] = part_of.emplace(patients[exam], name);
      if (added || known->second == name) continue;
      throw DataError(concat("patient '", patients[exam], "' is in the ", known->second,
                             " part and in the ", name, " part of repeat ", split.repeat, ", fold ",
                             split.fold, "; all exams of a patient must be in one part"));
    }
  }
}

}  // namespace coldframe::temporal
