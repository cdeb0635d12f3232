#include "train_temporal/batcher.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace coldframe::temporal {
namespace {

constexpr double kShortestInterval = 1e-4;  // seconds; frames at the same instant have a logarithm

std::array<float, kTimeColumns> time_row(const Sequence& sequence,
                                         const std::vector<std::int64_t>& times, std::size_t step) {
  const auto at = [&](std::size_t s) {
    return sequence.time_s[static_cast<std::size_t>(times[s])];
  };
  std::array<float, kTimeColumns> row{};
  if (!std::isfinite(at(step))) return row;
  if (std::isfinite(at(0))) {
    row[kSinceFirst] = static_cast<float>(at(step) - at(0));
    row[kTimeKnown] = 1;
  }
  if (step == 0 || !std::isfinite(at(step - 1))) return row;
  const double interval = std::max(at(step) - at(step - 1), kShortestInterval);
  row[kLogInterval] = static_cast<float>(std::log(interval));
  row[kIntervalKnown] = 1;
  return row;
}

torch::Tensor int_tensor(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kInt64);
}

torch::Tensor clock_tensor(const Dataset& dataset, const std::vector<BatchItem>& items) {
  std::vector<float> values;
  for (const BatchItem& item : items) {
    const std::vector<float>& clock = dataset.sequences[item.exam].clock;
    values.insert(values.end(), clock.begin(), clock.end());
  }
  return torch::tensor(values).view({static_cast<std::int64_t>(items.size()), -1});
}

}  // namespace

Batch make_batch(const Dataset& dataset, std::vector<BatchItem> items) {
  std::stable_sort(items.begin(), items.end(), [](const BatchItem& a, const BatchItem& b) {
    return a.frames.features.size() > b.frames.features.size();
  });
  const torch::Device device = dataset.features.device();
  Batch batch;
  std::vector<std::int64_t> rows, step_sizes, lengths;
  std::vector<float> time;
  const std::size_t longest = items.front().frames.features.size();
  for (std::size_t step = 0; step < longest; ++step) {
    std::int64_t reaching = 0;
    for (const BatchItem& item : items) {
      if (item.frames.features.size() <= step) break;
      const Sequence& sequence = dataset.sequences[item.exam];
      rows.push_back(sequence.first_row + item.frames.features[step]);
      const auto timing = time_row(sequence, item.frames.times, step);
      time.insert(time.end(), timing.begin(), timing.end());
      batch.row_keys.push_back(mix_bits(sequence.key + mix_bits(step + 1)));
      ++reaching;
    }
    step_sizes.push_back(reaching);
  }
  for (const BatchItem& item : items) {
    batch.exams.push_back(item.exam);
    batch.exam_keys.push_back(dataset.sequences[item.exam].key);
    lengths.push_back(static_cast<std::int64_t>(item.frames.features.size()));
  }
  batch.rows = int_tensor(rows).to(device);
  batch.step_sizes = int_tensor(step_sizes);
  batch.lengths = int_tensor(lengths);
  batch.time = torch::tensor(time).view({-1, kTimeColumns}).to(device);
  batch.clock = clock_tensor(dataset, items).to(device);
  return batch;
}

torch::Tensor gather_features(const Dataset& dataset, const Batch& batch) {
  return dataset.features.index_select(0, batch.rows).to(torch::kFloat32);
}

}  // namespace coldframe::temporal
