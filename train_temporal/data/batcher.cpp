#include "train_temporal/data/batcher.h"

#include <algorithm>
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

torch::Tensor clock_tensor(const Dataset& dataset, const SequenceBatch& batch) {
  std::vector<float> values;
  for (std::size_t exam : batch.exams) {
    const std::vector<float>& clock = dataset.sequences[exam].clock;
    values.insert(values.end(), clock.begin(), clock.end());
  }
  return torch::tensor(values).view({batch.size(), -1});
}

torch::Tensor time_tensor(const SequenceBatch& batch) {
  torch::Tensor time =
      torch::empty({static_cast<std::int64_t>(batch.times.size()), std::int64_t{kTimeColumns}});
  std::copy_n(batch.times.data()->data(), time.numel(), time.data_ptr<float>());
  return time;
}

}  // namespace

void pack(const Dataset& dataset, std::vector<BatchItem> items, Packing& packing) {
  std::stable_sort(items.begin(), items.end(), [](const BatchItem& a, const BatchItem& b) {
    return a.frames.features.size() > b.frames.features.size();
  });
  packing.exams.clear();
  packing.frame_rows.clear();
  packing.positions.clear();
  packing.sequences.clear();
  packing.frames.clear();
  packing.times.clear();
  packing.exam_keys.clear();
  packing.row_keys.clear();
  const std::size_t longest = items.front().frames.features.size();
  for (std::size_t step = 0; step < longest; ++step) {
    std::int64_t reaching = 0;
    for (const BatchItem& item : items) {
      if (item.frames.features.size() <= step) break;
      const Sequence& sequence = dataset.sequences[item.exam];
      packing.frame_rows.push_back(sequence.first_row + item.frames.features[step]);
      packing.positions.push_back(item.frames.features[step]);
      packing.times.push_back(time_row(sequence, item.frames.times, step));
      packing.row_keys.push_back(mix_bits(sequence.key + mix_bits(step + 1)));
      packing.frame_rows.back() += dataset.rows_before(item.view);
      ++reaching;
    }
    packing.sequences.push_back(reaching);
  }
  for (const BatchItem& item : items) {
    packing.exams.push_back(item.exam);
    packing.exam_keys.push_back(dataset.sequences[item.exam].key);
    packing.frames.push_back(static_cast<std::int64_t>(item.frames.features.size()));
  }
}

SequenceBatch make_batch(const Dataset& dataset, std::vector<BatchItem> items) {
  const torch::Device device = dataset.device;
  SequenceBatch batch;
  pack(dataset, std::move(items), batch);
  batch.rows = int_tensor(batch.frame_rows).to(device);
  batch.step_sizes = int_tensor(batch.sequences);
  batch.lengths = int_tensor(batch.frames);
  batch.time = time_tensor(batch).to(device);
  batch.clock = clock_tensor(dataset, batch).to(device);
  return batch;
}

torch::Tensor gather_features(const Dataset& dataset, const SequenceBatch& batch) {
  const torch::Tensor rows = batch.rows.to(dataset.features.device());
  return dataset.features.index_select(0, rows).to(dataset.device).to(torch::kFloat32);
}

}  // namespace coldframe::temporal
