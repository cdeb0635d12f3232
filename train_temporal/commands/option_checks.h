// Options of `coldframe train` that only some models or tasks can follow.
#pragma once

#include "train_temporal/run/options/options.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

// ConfigError for options that none of the models to be trained can follow.
void check_model_options(const TrainOptions& options);

// Where no fit can be a summary, `auto` becomes `gru`, and the log says why.
void resolve_auto(TrainOptions& options, const Targets& targets);

// For a bare `--compare`: removes the models that cannot learn these targets, and says so.
void leave_out_controls(TrainOptions& options, const Targets& targets);
// For a bare `--compare`: adds the main model on each stream by itself. ConfigError where a named
// one is not among `streams`.
void add_streams_alone(TrainOptions& options, const std::vector<std::string>& streams);
// ConfigError for what the options ask and the targets, whose tasks are known once they are read,
// do not allow.
void check_task_options(const TrainOptions& options, const Targets& targets);

// What models that read frames in order see of the times of these exams: `time` and `elapsed`.
void choose_times(const TrainOptions& options, std::span<const cache::ExamInfo> exams,
                  std::span<const std::size_t> used, ModelConfig& config);

// Warns of mixed precision on a processor that has no such arithmetic: it takes longer there.
void warn_of_emulated_precision(torch::ScalarType precision, const torch::Device& device);

}  // namespace coldframe::temporal
