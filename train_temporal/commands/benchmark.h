// `coldframe train --benchmark` and `--require`: what a run costs, before it begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

// What fits of a kind take, with all of their epochs.
struct KindCost {
  std::string name;
  std::size_t fits = 0;
  double fit_seconds = 0;
  std::size_t epochs = 0;  // that were timed; 0: of a whole fit, which has none

  // The first epoch of a fit takes longer than those that follow.
  bool is_of_first_epoch() const { return epochs == 1; }
};
// What a run takes of fits that go so many at a time: their sum, and no less than the longest.
double run_seconds(const std::vector<KindCost>& kinds, std::size_t side_by_side);

struct TrainBenchmark {
  std::string device, model;
  std::size_t exams = 0, batch = 0, at_once = 0;
  double frames_per_exam = 0, load_seconds = 0, step_seconds = 0, epoch_seconds = 0;
  std::uint64_t features_bytes = 0;  // in memory
  // Tensors on the device: features and one fit, predicted and measured, and predicted for as many
  // fits as will run side by side.
  std::uint64_t predicted_bytes = 0, measured_bytes = 0, predicted_run_bytes = 0;
  std::size_t fits = 0, side_by_side = 0;
  std::vector<KindCost> kinds;     // each measured by itself
  double longest_run_seconds = 0;  // about, with all epochs of all fits, none stopped early

  double epochs_per_hour() const { return 3600 / epoch_seconds; }
};

// Trains the first fit of the experiment for a few seconds, and one of each other kind for a
// second, and forgets them. `load_seconds`: what reading the features took.
TrainBenchmark measure_training(const Experiment& experiment, double load_seconds);

// Checks options.required before a run begins. Error with exit code 1 if a limit is exceeded; time
// limits are checked by measurement as above.
void require_affordable(const Experiment& experiment, double load_seconds);

std::string to_table(const TrainBenchmark& benchmark);
Json to_json(const TrainBenchmark& benchmark);

}  // namespace coldframe::temporal
