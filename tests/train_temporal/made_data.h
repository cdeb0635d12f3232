// Datasets in memory for tests of the model and its training.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/fit/step.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal::testing {

// Numbers in −1 … 1 that are the same in every run.
inline double noise(CounterRandom& random) {
  return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1.0;
}

// Exams of the given lengths with noise for features.
inline Dataset noise_dataset(const std::vector<std::int64_t>& lengths, std::int64_t dimension,
                             std::uint64_t seed = 1) {
  Dataset dataset;
  CounterRandom random({seed});
  std::int64_t row = 0;
  for (std::size_t exam = 0; exam < lengths.size(); ++exam) {
    Sequence sequence;
    sequence.key = mix_bits(exam + 1);
    sequence.first_row = row;
    for (std::int64_t t = 0; t < lengths[exam]; ++t) {
      sequence.time_s.push_back(static_cast<double>(t * (t + 2)) * 0.1);
    }
    sequence.clock = {static_cast<float>(lengths[exam]), 1.0f};
    row += lengths[exam];
    dataset.sequences.push_back(sequence);
  }
  dataset.features = torch::empty({row, dimension});
  float* out = dataset.features.data_ptr<float>();
  for (std::int64_t i = 0; i < row * dimension; ++i) out[i] = static_cast<float>(noise(random));
  return dataset;
}

// A target of exams: binary of two classes, multi-class of more.
inline Targets classes_of(const std::vector<int>& value) {
  Labels labels;
  labels.name = "label";
  labels.value = value;
  const int most = *std::max_element(value.begin(), value.end());
  for (int c = 0; c <= std::max(most, 1); ++c) labels.classes.push_back(std::to_string(c));
  labels.task = most > 1 ? Task::kMulticlass : Task::kBinary;
  return labels;
}

// Only the order tells the classes apart: both see the same set of frames, a ramp in feature 0 that
// rises in class 1 and falls in class 0.
inline Dataset ramp_dataset(Targets& targets, std::size_t exams, std::int64_t frames,
                            std::int64_t dimension) {
  Dataset dataset = noise_dataset(std::vector<std::int64_t>(exams, frames), dimension);
  std::vector<int> labels;
  for (std::size_t exam = 0; exam < exams; ++exam) {
    labels.push_back(static_cast<int>(exam % 2));
    for (std::int64_t t = 0; t < frames; ++t) {
      const double ramp = 2.0 * static_cast<double>(t) / static_cast<double>(frames - 1) - 1.0;
      dataset.features[dataset.sequences[exam].first_row + t][0] = labels[exam] == 1 ? ramp : -ramp;
    }
  }
  targets = classes_of(labels);
  return dataset;
}

inline ModelConfig small_config(const Dataset& dataset, const std::string& model = "gru") {
  ModelConfig config;
  set_model(config, model);
  config.dimension = dataset.features.size(1);
  config.clock_width = static_cast<std::int64_t>(dataset.sequences.front().clock.size());
  config.hidden = 16;
  return config;
}

inline Split thirds(std::size_t exams) {
  Split split;
  for (std::size_t i = 0; i < exams; ++i) {
    (i % 6 < 2 ? split.test : i % 6 < 4 ? split.validation : split.train).push_back(i);
  }
  return split;
}

inline std::vector<BatchItem> all_frames(const Dataset& dataset,
                                         const std::vector<std::size_t>& exams) {
  const FrameSampler sampler(FrameOrder::kInOrder, 0, 0);
  std::vector<BatchItem> items;
  for (std::size_t exam : exams) {
    items.push_back({exam, sampler.for_evaluation(dataset.sequences[exam].frames(), 0)});
  }
  return items;
}

// accumulate_gradients() of a whole batch.
inline LossSum batch_gradients(SequenceModel& model, const Dataset& dataset,
                               std::span<const BatchItem> items, const Objective& objective,
                               const Dropout& dropout, std::size_t micro_batch) {
  LossSum sum = objective.weights_of(items);
  accumulate_gradients(model, dataset, items, objective, dropout, micro_batch, sum);
  return sum;
}

inline FitRecord run_to_end(const FitTask& task) {
  Trainer trainer(task);
  while (!trainer.finished()) trainer.run_epoch();
  return trainer.finish();
}

}  // namespace coldframe::temporal::testing
