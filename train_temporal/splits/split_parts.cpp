#include "train_temporal/splits/split_parts.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/splits/split_assign.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr double kValidationShare = 0.2;
constexpr std::uint64_t kInnerStream = 3;

// "of class 'ill'"; empty: none is absent.
std::string absent_classes(const std::vector<std::size_t>& exams, const Targets& targets) {
  std::vector<std::size_t> count(targets.strata(), 0);
  for (std::size_t exam : exams) {
    const std::vector<std::size_t> of_exam = targets.count_strata(exam);
    for (std::size_t c = 0; c < count.size(); ++c) count[c] += of_exam[c];
  }
  std::vector<std::string> absent;
  for (std::size_t c = 0; c < count.size(); ++c) {
    if (count[c] == 0 && targets.is_class(c)) absent.push_back(targets.stratum_name(c));
  }
  if (absent.empty()) return {};
  return targets.size() == 1 && targets[0].is_timed() ? "with an event"
                                                      : concat("of class ", join(absent, ", "));
}

std::string blind_targets(const std::vector<std::size_t>& exams, const Targets& targets) {
  std::vector<std::string> blind;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    std::vector<double> labels;
    for (std::size_t exam : exams)
      for (std::size_t row = 0; row < targets[t].rows(exam); ++row)
        if (!std::isnan(targets[t].at(exam, row))) labels.push_back(targets[t].at(exam, row));
    if (targets[t].kind().is_blind(labels)) blind.push_back(concat("'", targets[t].name, "'"));
  }
  return join(blind, ", ");
}

}  // namespace

std::array<NamedPart, 3> parts_of(const Split& split) {
  return {NamedPart{"train", &split.train}, NamedPart{"validation", &split.validation},
          NamedPart{"test", &split.test}};
}

void take_validation(Split& split, const Targets& targets, const std::vector<std::string>& patients,
                     std::uint64_t seed) {
  const std::vector<PatientGroup> groups = group_by_patient(targets, patients, split.train);
  if (groups.size() < 2) {
    throw ConfigError(concat("fold ", split.fold, " leaves ", plural(groups.size(), "patient"),
                             " for training and validation, which need one each"));
  }
  constexpr std::array kShares = {1.0 - kValidationShare, kValidationShare};
  const std::vector<std::size_t> part =
      assign_groups(groups, kShares, {seed, kInnerStream, split.repeat, split.fold});
  split.train.clear();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& into = part[g] == 0 ? split.train : split.validation;
    into.insert(into.end(), groups[g].exams.begin(), groups[g].exams.end());
  }
  if (split.validation.empty()) {
    throw ConfigError(concat("fold ", split.fold, " leaves ", plural(groups.size(), "patient"),
                             " for training and validation, all of which training needs to know "
                             "every class; use more folds, or give more patients of each class"));
  }
  std::ranges::sort(split.train);
  std::ranges::sort(split.validation);
}

void check_parts(const Split& split, const Targets& targets,
                 const std::vector<std::string>& patients, std::vector<std::string>& warnings) {
  const std::string where = concat("repeat ", split.repeat, ", fold ", split.fold);
  const auto parts = parts_of(split);
  for (std::size_t i : {0, 2, 1}) {  // what the other two lack explains a missing validation part
    if (!parts[i].second->empty()) continue;
    throw DataError(concat("the ", parts[i].first, " part of ", where, " is empty"));
  }
  check_patients_apart(split, patients);
  if (const std::string absent = absent_classes(split.train, targets); !absent.empty()) {
    const std::string problem =
        concat("the train part of ", where, " has no exam ", absent, ": it cannot be learnt");
    if (targets.size() == 1) throw DataError(problem);
    warnings.push_back(problem);
  }
  const std::string absent = absent_classes(split.validation, targets);
  const std::string blind = blind_targets(split.validation, targets);
  if (!absent.empty() && (targets.size() > 1 || blind.empty()))
    warnings.push_back(concat("the validation part of ", where, " has no exam ", absent));
  if (!blind.empty()) {
    warnings.push_back(concat(
        "the validation part of ", where, " has no event of ", blind,
        " beyond which another exam is followed: it cannot tell epochs apart",
        targets.size() == 1 ? ", and fits keep the weights of the last one (--epochs)" : " by it"));
  }
}

}  // namespace coldframe::temporal
