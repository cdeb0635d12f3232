#include "train_temporal/cohort.h"

#include <map>
#include <set>

#include "common/csv.h"
#include "common/error.h"
#include "common/text.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kDefaultFolds = 5;

Labels read_labels(const cache::CacheReader& cache, const TargetOptions& options,
                   const std::vector<std::string>& known_classes) {
  const LabelOptions wanted{options.target, options.positive, known_classes};
  if (options.labels.empty()) return labels_from_cache(cache.exams(), wanted);
  return labels_from_csv(cache.exams(), read_csv(options.labels), wanted);
}

// Exams of which no frame is present cannot be shown to a model.
void leave_out_empty_exams(Cohort& cohort) {
  std::size_t empty = 0;
  for (std::size_t i = 0; i < cohort.exams().size(); ++i) {
    if (cohort.labels.value[i] == kUnlabeled || present_frames(cohort.exams()[i]) > 0) continue;
    cohort.labels.value[i] = kUnlabeled;
    ++cohort.labels.unlabeled;
    ++empty;
  }
  if (empty == 0) return;
  cohort.warnings.push_back(concat(plural(empty, "exam"), " without any readable frame left out"));
  if (cohort.labels.labeled() == 0) throw DataError("no labelled exam has a readable frame");
}

std::vector<std::size_t> numbered(const std::vector<std::string>& patients) {
  std::map<std::string, std::size_t> number;
  std::vector<std::size_t> result;
  for (const std::string& patient : patients) {
    result.push_back(number.emplace(patient, number.size()).first->second);
  }
  return result;
}

SplitSet split_set(const Cohort& cohort, const TrainOptions& options, std::string& how) {
  if (!options.splits.empty()) {
    how = concat("as ", options.splits.filename().string(), " says");
    return splits_from_csv(read_csv(options.splits), cohort.exams(), cohort.labels, cohort.patients,
                           options.seed);
  }
  if (options.split_column || (options.folds == 0 && has_split_column(cohort.exams()))) {
    if (options.repeats > 1) {
      throw ConfigError("--repeats divides anew; it needs --folds, not the cache's split column");
    }
    how = "as the cache's split column says";
    return split_from_column(cohort.exams(), cohort.labels, cohort.patients, options.seed);
  }
  if (options.folds == 1) {
    how = "one part held out, by patient";
    if (options.repeats > 1) throw ConfigError("--repeats needs --folds of 2 or more");
    return make_holdout(cohort.labels, cohort.patients, options.seed);
  }
  const std::size_t folds = options.folds > 0 ? options.folds : kDefaultFolds;
  how = concat(folds, " folds by patient");
  if (options.repeats > 1) how += concat(", ", options.repeats, " times");
  return make_folds(cohort.labels, cohort.patients, folds, options.seed, options.repeats);
}

}  // namespace

Cohort open_cohort(const TargetOptions& options, const std::vector<std::string>& known_classes) {
  Cohort cohort{cache::CacheReader(options.cache), {}, {}, {}, {}};
  cohort.labels = read_labels(cohort.cache, options, known_classes);
  cohort.warnings = cohort.labels.warnings;
  leave_out_empty_exams(cohort);
  cohort.patients = patients_of(cohort.exams(), cohort.labels, options.exam_is_patient);
  cohort.patient_number = numbered(cohort.patients);
  return cohort;
}

std::vector<Split> divide(Cohort& cohort, const TrainOptions& options, std::string& how) {
  SplitSet set = split_set(cohort, options, how);
  if (options.seeds > 1) how += concat(", ", options.seeds, " seeds averaged");
  cohort.warnings.insert(cohort.warnings.end(), set.warnings.begin(), set.warnings.end());
  return std::move(set.splits);
}

DataOverview overview(const Cohort& cohort, const std::vector<std::size_t>& used) {
  DataOverview data;
  std::vector<std::size_t> exams(cohort.labels.classes.size());
  std::vector<std::set<std::size_t>> patients(cohort.labels.classes.size());
  std::set<std::size_t> all_patients;
  for (std::size_t exam : used) {
    const auto label = static_cast<std::size_t>(cohort.labels.value[exam]);
    ++exams[label];
    patients[label].insert(cohort.patient_number[exam]);
    all_patients.insert(cohort.patient_number[exam]);
    data.frames_per_exam.push_back(present_frames(cohort.exams()[exam]));
  }
  data.exams = used.size();
  data.patients = all_patients.size();
  data.unlabeled = cohort.labels.unlabeled;
  for (std::size_t c = 0; c < exams.size(); ++c) {
    data.exams_per_class.emplace_back(cohort.labels.classes[c], exams[c]);
    data.patients_per_class.push_back(patients[c].size());
  }
  return data;
}

void require_same_features(const cache::Recipe& trained, const cache::Recipe& found,
                           const std::filesystem::path& cache) {
  if (trained.feature_digest() == found.feature_digest()) return;
  // differences() speaks of "cache" and "now": the cache at hand is the one, the run the other.
  throw CacheError(concat("'", cache.string(), "' was made by another recipe than the run's ",
                          "(\"now\" is what the run was trained on):\n  ",
                          join(cache::differences(found.features, trained.features), "\n  "),
                          "\nextract these exams with the run's recipe"));
}

}  // namespace coldframe::temporal
