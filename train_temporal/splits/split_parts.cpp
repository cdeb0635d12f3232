#include "train_temporal/splits/split_parts.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/splits/split_assign.h"

namespace coldframe::temporal {
namespace {

constexpr double kValidationShare = 0.2;
constexpr std::uint64_t kInnerStream = 3;

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
  return join(absent, ", ");
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
    const std::string problem = concat("the train part of ", where, " has no exam of class ",
                                       absent, ": it cannot be learnt");
    if (targets.size() == 1) throw DataError(problem);
    warnings.push_back(problem);
  }
  if (const std::string absent = absent_classes(split.validation, targets); !absent.empty()) {
    warnings.push_back(concat("the validation part of ", where, " has no exam of class ", absent));
  }
}

}  // namespace coldframe::temporal
