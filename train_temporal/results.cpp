#include "train_temporal/results.h"

#include "common/csv.h"
#include "common/exact.h"
#include "common/text.h"
#include "train_temporal/metrics/calibration.h"

namespace coldframe::temporal {
namespace {

std::vector<int> labels_of(const std::vector<std::size_t>& exams, const Labels& labels) {
  std::vector<int> result;
  for (std::size_t exam : exams) result.push_back(labels.value[exam]);
  return result;
}

void add_share(std::vector<double>& sum, const std::vector<double>& values, double share) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
}

FoldResult assemble_fold(std::span<const FinishedFit> seeds, const Labels& labels) {
  const std::size_t classes = labels.classes.size();
  const Split& split = *seeds.front().split;
  const std::vector<int> validation_labels = labels_of(split.validation, labels);
  const double share = 1.0 / static_cast<double>(seeds.size());
  FoldResult fold{&split, {}, 0.5, {}};
  std::vector<double> validation;
  for (const FinishedFit& fit : seeds) {
    const FitRecord& record = fit.record;
    const double temperature =
        fit_temperature(record.validation_logits, classes, validation_labels);
    fold.temperatures.push_back(temperature);
    add_share(validation, softmax(record.validation_logits, classes, temperature), share);
    add_share(fold.exams.probability, softmax(record.test_logits, classes, temperature), share);
  }
  if (labels.binary()) {
    std::vector<double> score;
    for (std::size_t i = 1; i < validation.size(); i += 2) score.push_back(validation[i]);
    fold.threshold = youden_threshold(score, validation_labels).value;
  }
  fold.exams.classes = classes;
  fold.exams.label = labels_of(split.test, labels);
  fold.exams.decision = decide(fold.exams.probability, classes, fold.threshold);
  return fold;
}

}  // namespace

std::vector<ModelFolds> assemble(const std::vector<FinishedFit>& fits, const Labels& labels,
                                 std::size_t seeds) {
  std::vector<ModelFolds> models;
  for (std::size_t start = 0; start < fits.size(); start += seeds) {
    const std::string& model = fits[start].name.model;
    if (models.empty() || models.back().model != model) models.push_back({model, {}});
    models.back().folds.push_back(assemble_fold(std::span(fits).subspan(start, seeds), labels));
  }
  return models;
}

ModelResult to_result(const ModelFolds& folds, const Cohort& cohort) {
  ModelResult result;
  result.name = folds.model;
  for (const FoldResult& fold : folds.folds) {
    FoldScores scores{fold.split->repeat, fold.split->fold, fold.exams, {}};
    for (std::size_t exam : fold.split->test) {
      scores.patient.push_back(cohort.patient_number[exam]);
    }
    result.folds.push_back(std::move(scores));
  }
  return result;
}

std::string predictions_csv(const ModelFolds& folds, const Cohort& cohort) {
  const std::vector<std::string>& classes = cohort.labels.classes;
  std::vector<std::string> header = {"repeat", "fold", "exam", "patient", "label"};
  for (const std::string& name : classes) header.push_back("p_" + name);
  header.push_back("predicted");
  std::string csv = csv_row(header);
  for (const FoldResult& fold : folds.folds) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      const std::size_t exam = fold.split->test[i];
      std::vector<std::string> row = {std::to_string(fold.split->repeat),
                                      std::to_string(fold.split->fold), cohort.exams()[exam].id,
                                      cohort.patients[exam],
                                      classes[static_cast<std::size_t>(fold.exams.label[i])]};
      for (std::size_t c = 0; c < classes.size(); ++c) row.push_back(exact(fold.exams.score(i, c)));
      row.push_back(classes[static_cast<std::size_t>(fold.exams.decision[i])]);
      csv += csv_row(row);
    }
  }
  return csv;
}

std::string epochs_csv(const std::vector<FinishedFit>& fits) {
  std::string csv = csv_row({"model", "repeat", "fold", "seed", "epoch", "train_loss",
                             "validation_loss", "learning_rate", "best"});
  for (const FinishedFit& fit : fits) {
    const FitName& name = fit.name;
    for (std::size_t epoch = 0; epoch < fit.record.history.size(); ++epoch) {
      const EpochLosses& losses = fit.record.history[epoch];
      csv += csv_row({name.model, std::to_string(name.repeat), std::to_string(name.fold),
                      std::to_string(name.seed), std::to_string(epoch), exact(losses.train),
                      exact(losses.validation), exact(losses.learning_rate),
                      epoch == fit.record.best_epoch ? "1" : "0"});
    }
  }
  return csv;
}

}  // namespace coldframe::temporal
