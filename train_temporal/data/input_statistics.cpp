#include "train_temporal/data/input_statistics.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "train_temporal/data/batcher.h"
#include "train_temporal/data/feature_source.h"

namespace coldframe::temporal {

namespace {

// For each packed row [N, D] that of its exam's first frame, or of the frame before it.
torch::Tensor rows_before(const torch::Tensor& features, const PackedBatch& batch, bool first) {
  if (batch.even()) {
    const torch::Tensor grid = features.reshape({-1, batch.size(), features.size(1)});  // [T, B, D]
    const torch::Tensor start = grid.narrow(0, 0, 1);
    if (first) return start.expand_as(grid).reshape_as(features);
    return torch::cat({start, grid.narrow(0, 0, grid.size(0) - 1)}).view_as(features);
  }
  // Exams stand in one order in every step, the longest first.
  std::vector<std::int64_t> rows;
  std::int64_t last_step = 0;
  for (const std::int64_t reaching : batch.batch_sizes) {
    const std::int64_t row = std::ssize(rows);
    for (std::int64_t i = 0; i < reaching; ++i)
      rows.push_back(first || row == 0 ? i : last_step + i);
    last_step = row;
  }
  return features.index_select(0, torch::tensor(rows, torch::kInt64).to(features.device()));
}

}  // namespace

torch::Tensor with_changes(const torch::Tensor& features, const PackedBatch& batch, Inputs inputs) {
  if (inputs == Inputs::kLevel) return features;
  const torch::Tensor first = rows_before(features, batch, /*first=*/true);
  const torch::Tensor before = rows_before(features, batch, /*first=*/false);
  if (inputs == Inputs::kChange) return torch::cat({features - first, features - before}, 1);
  return torch::cat({features, features - first, features - before}, 1);
}

namespace {

// Calls a body for a table's rows, at most so many at a time, in one order.
using Body = std::function<void(const torch::Tensor& rows)>;
using Slices = std::function<void(std::int64_t at_most, const Body& body)>;

Slices rows_of(const torch::Tensor& table, const torch::Tensor& rows) {
  return [=](std::int64_t at_most, const Body& body) {
    for (std::int64_t start = 0; start < rows.size(0); start += at_most) {
      const auto part = rows.narrow(0, start, std::min(at_most, rows.size(0) - start));
      body(table.index_select(0, part));
    }
  };
}

// All rows of these exams, read from the cache: the same slices as of a table.
Slices streamed_rows(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  return [&](std::int64_t at_most, const Body& body) {
    constexpr std::size_t kExamsAtATime = 64;
    const auto groups = in_groups(exams, kExamsAtATime);
    FeatureStream stream(dataset);
    stream.plan(groups);
    torch::Tensor left;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      stream.next();
      const torch::Tensor& read = stream.window().features;
      left = left.defined() ? torch::cat({left, read}) : read;
      std::int64_t done = 0;
      for (; left.size(0) - done >= at_most; done += at_most) body(left.narrow(0, done, at_most));
      left = left.narrow(0, done, left.size(0) - done).clone();
    }
    if (left.defined() && left.size(0) > 0) body(left);
  };
}

// Mean and deviation of each of `width` columns over the values that are not missing, [W], [W]. In
// double, a slice of rows at a time, which needs less than a MiB whatever the width.
std::pair<torch::Tensor, torch::Tensor> column_statistics(std::int64_t width,
                                                          const torch::Device& device,
                                                          bool may_miss, const Slices& slices) {
  constexpr std::int64_t kValues = 1 << 14;
  const std::int64_t at_most =
      std::max<std::int64_t>(kValues / std::max<std::int64_t>(width, 1), 1);
  torch::Tensor sum = torch::zeros({width}, torch::dtype(torch::kFloat64).device(device));
  torch::Tensor squares = torch::zeros_like(sum), count = torch::zeros_like(sum);
  const auto summed = [&](const torch::Tensor& values) {
    return may_miss ? values.nansum(0) : values.sum(0);
  };
  slices(at_most, [&](const torch::Tensor& part) {
    const torch::Tensor values = part.to(device).to(torch::kFloat64);
    sum += summed(values);
    if (may_miss)
      count += values.isnan().logical_not().sum(0);
    else
      count += values.size(0);
  });
  count.clamp_min_(1);
  const torch::Tensor mean = sum / count;
  slices(at_most, [&](const torch::Tensor& part) {
    squares += summed((part.to(device).to(torch::kFloat64) - mean).square());
  });
  return {mean, (squares / count).sqrt()};
}

// A column that did not vary keeps its scale: its deviation becomes 1.
torch::Tensor without_zeros(const torch::Tensor& deviation) {
  return torch::where(deviation < 1e-6, torch::ones_like(deviation), deviation);
}

double floor_of(const torch::Tensor& deviation) {
  return std::max(0.01 * deviation.mean().item<double>(), 1e-6);
}

std::vector<std::int64_t> frame_rows(const Dataset& dataset,
                                     const std::vector<std::size_t>& exams) {
  std::vector<std::int64_t> rows;
  for (std::size_t exam : exams) {
    const Sequence& sequence = dataset.sequences[exam];
    for (std::int64_t t = 0; t < sequence.frames(); ++t) rows.push_back(sequence.first_row + t);
  }
  return rows;
}

std::pair<torch::Tensor, torch::Tensor> feature_statistics(const Dataset& dataset,
                                                           const std::vector<std::size_t>& exams) {
  if (dataset.streamed()) {
    return column_statistics(dataset.cache->dimension(), dataset.device, dataset.streams > 0,
                             streamed_rows(dataset, exams));
  }
  const torch::Tensor rows =
      torch::tensor(frame_rows(dataset, exams), torch::kInt64).to(dataset.features.device());
  return column_statistics(dataset.features.size(1), dataset.device, dataset.streams > 0,
                           rows_of(dataset.features, rows));
}

// Each part by its own mean: differences are smaller than levels.
torch::Tensor floored(const torch::Tensor& deviation, std::int64_t parts) {
  std::vector<torch::Tensor> each;
  for (const torch::Tensor& part : deviation.chunk(parts))
    each.push_back(part.clamp_min(floor_of(part)));
  return torch::cat(each);
}

// Of the differences between frames, a group of exams at a time.
std::pair<torch::Tensor, torch::Tensor> change_statistics(const Dataset& dataset,
                                                          const std::vector<std::size_t>& exams,
                                                          Inputs inputs) {
  constexpr std::size_t kExamsAtATime = 64;
  const FrameSampler all_frames(FrameOrder::kInOrder, 0, 0);
  const auto groups = in_groups(exams, kExamsAtATime);
  const Slices slices = [&](std::int64_t, const Body& body) {
    const auto source = source_of(dataset);
    source->plan(groups);
    for (const auto& group : groups) {
      source->next();
      std::vector<BatchItem> items;
      for (std::size_t exam : group)
        items.push_back({exam, all_frames.for_evaluation(dataset.sequences[exam].frames(), 0)});
      const PackedBatch batch = make_batch(source->window(), std::move(items));
      body(with_changes(gather_features(source->window(), batch), batch, inputs));
    }
  };
  const std::int64_t width =
      dataset.streamed() ? dataset.cache->dimension() : dataset.features.size(1);
  return column_statistics(parts_of(inputs) * width, dataset.device, false, slices);
}

// Hands over all frames of these exams, but no more at a time than fit into some MiB.
void for_batches(const Dataset& dataset, const std::vector<std::size_t>& exams,
                 const std::function<void(const PackedBatch&)>& body) {
  constexpr std::size_t kExamsAtATime = 1 << 14;
  const FrameSampler all_frames(FrameOrder::kInOrder, 0, 0);
  for (const auto& group : in_groups(exams, kExamsAtATime)) {
    std::vector<BatchItem> items;
    for (std::size_t exam : group) {
      items.push_back({exam, all_frames.for_evaluation(dataset.sequences[exam].frames(), 0)});
    }
    body(make_batch(dataset, std::move(items)));
  }
}

// Over the values that are known.
void time_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams,
                     InputStatistics& statistics) {
  constexpr std::int64_t kColumns = kIntervalKnown;
  const auto zeros = [] { return torch::zeros({kColumns}, torch::kFloat64); };
  torch::Tensor count = zeros(), sum = zeros(), squares = zeros();
  for_batches(dataset, exams, [&](const PackedBatch& batch) {
    const torch::Tensor time = batch.tensors.time.cpu().to(torch::kFloat64);
    const torch::Tensor known = time.narrow(1, kIntervalKnown, kColumns);
    count += known.sum(0);
    sum += (time.narrow(1, kLogInterval, kColumns) * known).sum(0);
  });
  count.clamp_min_(1);
  const torch::Tensor mean = sum / count;
  for_batches(dataset, exams, [&](const PackedBatch& batch) {
    const torch::Tensor time = batch.tensors.time.cpu().to(torch::kFloat64);
    const torch::Tensor value = time.narrow(1, kLogInterval, kColumns);
    squares += ((value - mean).square() * time.narrow(1, kIntervalKnown, kColumns)).sum(0);
  });
  statistics.time_mean = mean.to(torch::kFloat32);
  statistics.time_std = without_zeros((squares / count).sqrt()).to(torch::kFloat32);
}

// Of all exams, [B, F].
torch::Tensor clocks_of(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  std::vector<torch::Tensor> clocks;
  for_batches(dataset, exams,
              [&](const PackedBatch& batch) { clocks.push_back(batch.tensors.clock); });
  return torch::cat(clocks);
}

// Statistics of merged frames. Whether a stream is there stays 0 or 1: one that training always had
// may be missing elsewhere.
void set_stream_statistics(const torch::Tensor& mean, const torch::Tensor& deviation,
                           std::int64_t streams, InputStatistics& statistics) {
  const std::int64_t features = mean.size(0) - streams, width = features / streams;
  const torch::Tensor there = mean.narrow(0, features, streams) > 0;  // [S]
  const torch::Tensor seen = there.nonzero().flatten();
  const torch::Tensor own = deviation.narrow(0, 0, features).view({streams, width});
  const double floor = floor_of(own.index_select(0, seen));
  const torch::Tensor hidden = there.logical_not();
  const torch::Tensor scale =
      own.clamp_min(floor).masked_fill(hidden.unsqueeze(1), kBlankDeviation).flatten();
  const torch::Tensor flag = torch::ones_like(there, scale.options());
  statistics.feature_std =
      torch::cat({scale, flag.masked_fill(hidden, kBlankDeviation)}).to(torch::kFloat32);
  statistics.feature_mean.narrow(0, features, streams).zero_();
}

}  // namespace

InputStatistics input_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams,
                                 Inputs inputs) {
  InputStatistics statistics;
  const auto [mean, deviation] = inputs == Inputs::kLevel
                                     ? feature_statistics(dataset, exams)
                                     : change_statistics(dataset, exams, inputs);
  statistics.feature_mean = mean.to(torch::kFloat32);
  if (dataset.streams > 0)
    set_stream_statistics(mean, deviation, dataset.streams, statistics);
  else
    statistics.feature_std = floored(deviation, parts_of(inputs)).to(torch::kFloat32);
  time_statistics(dataset, exams, statistics);
  const torch::Tensor clock = clocks_of(dataset, exams);
  const torch::Tensor all =
      torch::arange(clock.size(0), torch::dtype(torch::kInt64).device(clock.device()));
  const auto [clock_mean, clock_deviation] =
      column_statistics(clock.size(1), dataset.device, false, rows_of(clock, all));
  statistics.clock_mean = clock_mean.to(torch::kFloat32);
  statistics.clock_std = without_zeros(clock_deviation).to(torch::kFloat32);
  return statistics;
}

}  // namespace coldframe::temporal
