// `coldframe train --benchmark`: what a run will take, before it is made.
#pragma once

#include <string>

#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

struct TrainBenchmark {
  std::string device, model;
  std::size_t exams = 0, batch = 0, at_once = 0;
  double frames_per_exam = 0, load_seconds = 0, step_seconds = 0, epoch_seconds = 0;
  std::uint64_t features_bytes = 0;  // in memory
  // Tensors on the device: features and one fit, predicted and measured, and predicted for as many
  // fits as will run side by side.
  std::uint64_t predicted_bytes = 0, measured_bytes = 0, predicted_run_bytes = 0;
  std::size_t fits = 0, side_by_side = 0;
  double longest_run_seconds = 0;  // with all epochs of all fits, none stopped early

  double epochs_per_hour() const { return 3600 / epoch_seconds; }
};

// Trains the first fit of the experiment for a few seconds and forgets it. `load_seconds`: what
// reading the features took.
TrainBenchmark measure_training(const Experiment& experiment, double load_seconds);

// Says of a run that is to begin what options.required promise of it. Error with exit code 1 where
// that does not hold; where times are asked it is measured as above.
void require_affordable(const Experiment& experiment, double load_seconds);

std::string to_table(const TrainBenchmark& benchmark);
Json to_json(const TrainBenchmark& benchmark);

}  // namespace coldframe::temporal
