// Reports of made predictions, for tests of what is said of them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/report/report_files.h"

namespace coldframe::temporal::made {

inline double nearly_normal(CounterRandom& random) {
  double sum = -6;  // of twelve uniform numbers: near enough
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

// A model that tells classes apart by `skill`; equal seeds give equal noise.
inline ModelResult model(const std::string& name, double skill, std::size_t classes = 2,
                         std::size_t folds = 5, std::uint64_t seed = 1) {
  ModelResult result{.name = name, .learns_order = name == "gru"};
  for (std::size_t fold = 0; fold < folds; ++fold) {
    FoldScores& one = result.folds.emplace_back();
    one.fold = fold;
    one.exams.width = classes;
    std::vector<double> logits;
    for (std::size_t p = 0; p < 24; ++p) {
      CounterRandom random({seed, fold, p});
      const int label = static_cast<int>(p % classes);
      for (std::size_t c = 0; c < classes; ++c) {
        logits.push_back(nearly_normal(random) + (static_cast<int>(c) == label ? skill : 0));
      }
      one.exams.label.push_back(label);
      one.patient.push_back(fold * 24 + p);
    }
    one.exams.predicted = softmax(logits, classes);
    one.exams.decision = decide(one.exams.predicted, classes, 0.5);
  }
  return result;
}

inline TargetReport example(std::vector<ModelResult> models, std::vector<std::string> classes) {
  TargetReport report;
  report.subtitle = "runs/example, 21 November 2026";
  report.target = "abnormal";
  report.classes = classes;
  report.split = "5 folds by patient, 3 seeds averaged";
  report.bootstrap.resamples = 50;
  report.data = {124, 120, 4, {}, {}, {}, {}, 0, 0};
  for (const std::string& name : classes) {
    report.data.exams_per_class.emplace_back(name, 120 / classes.size());
    report.data.patients_per_class.push_back(120 / classes.size());
  }
  for (std::size_t i = 0; i < 124; ++i) report.data.frames_per_exam.push_back(12 + i % 9);
  for (std::size_t fold = 0; fold < models.front().folds.size(); ++fold) {
    report.choices.push_back({0, fold, {77, 77}, {19, 19}, {24, 24}, 1.31, 0.42});
    for (std::size_t seed = 0; seed < 3; ++seed) {
      FoldCurve& curve = report.curves.emplace_back();
      curve.fold = fold;
      curve.seed = seed;
      CounterRandom random({fold, seed});
      for (std::size_t epoch = 0; epoch < 20 + 3 * fold; ++epoch) {
        const double e = static_cast<double>(epoch);
        curve.train_loss.push_back(0.7 * std::exp(-e / 9) + 0.02 * nearly_normal(random));
        curve.validation_loss.push_back(0.35 + 0.4 * std::exp(-e / 6) + 0.004 * e +
                                        0.02 * nearly_normal(random));
      }
    }
  }
  report.configuration = {{"model", "gru, 1 layer of 128"}, {"optimizer", "AdamW, 3e-4"}};
  report.recipe = {{"backbone", "vit_small_patch16_224"}, {"pool", "cls"}};
  report.resources = {{"time", "1m 12s"}, {"peak memory", "212 MiB of 500 MiB"}};
  report.warnings = {"4 exams of 124 without a label in 'abnormal': left out"};
  evaluate_models(models);
  report.models = std::move(models);
  return report;
}

inline std::string page_of(const TargetReport& report) {
  return report_page(RunReport{{report}, {}}).finish();
}

}  // namespace coldframe::temporal::made
