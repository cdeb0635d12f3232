#include "train_temporal/data/input_statistics.h"

#include <algorithm>
#include <utility>

#include "train_temporal/data/batcher.h"

namespace coldframe::temporal {
namespace {

// Mean and deviation of each column, [R, W] → [W], [W]. In double, a slice of rows at a time, which
// needs less than a MiB whatever the width.
std::pair<torch::Tensor, torch::Tensor> column_statistics(const torch::Tensor& table,
                                                          const torch::Tensor& rows) {
  constexpr std::int64_t kValues = 1 << 14;
  const std::int64_t slice =
      std::max<std::int64_t>(kValues / std::max<std::int64_t>(table.size(1), 1), 1);
  torch::Tensor sum = torch::zeros({table.size(1)}, table.options().dtype(torch::kFloat64));
  torch::Tensor squares = torch::zeros_like(sum);
  for (std::int64_t start = 0; start < rows.size(0); start += slice) {
    const auto part = rows.narrow(0, start, std::min(slice, rows.size(0) - start));
    sum += table.index_select(0, part).to(torch::kFloat64).sum(0);
  }
  const auto count = static_cast<double>(std::max<std::int64_t>(rows.size(0), 1));
  const torch::Tensor mean = sum / count;
  for (std::int64_t start = 0; start < rows.size(0); start += slice) {
    const auto part = rows.narrow(0, start, std::min(slice, rows.size(0) - start));
    squares += (table.index_select(0, part).to(torch::kFloat64) - mean).square().sum(0);
  }
  return {mean, (squares / count).sqrt()};
}

// A column that did not vary keeps its scale: its deviation becomes 1.
torch::Tensor without_zeros(const torch::Tensor& deviation) {
  return torch::where(deviation < 1e-6, torch::ones_like(deviation), deviation);
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

// Over the values that are known.
void time_statistics(const Batch& all, InputStatistics& statistics) {
  const torch::Tensor time = all.time.cpu().to(torch::kFloat64);
  const torch::Tensor known = time.narrow(1, kIntervalKnown, 2);
  const torch::Tensor value = time.narrow(1, kLogInterval, 2);
  const torch::Tensor count = known.sum(0).clamp_min(1);
  const torch::Tensor mean = (value * known).sum(0) / count;
  const torch::Tensor variance = ((value - mean).square() * known).sum(0) / count;
  statistics.time_mean = mean.to(torch::kFloat32);
  statistics.time_std = without_zeros(variance.sqrt()).to(torch::kFloat32);
}

}  // namespace

InputStatistics input_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  InputStatistics statistics;
  const torch::Tensor rows =
      torch::tensor(frame_rows(dataset, exams), torch::kInt64).to(dataset.features.device());
  const auto [mean, deviation] = column_statistics(dataset.features, rows);
  const double floor = std::max(0.01 * deviation.mean().item<double>(), 1e-6);
  statistics.feature_mean = mean.to(torch::kFloat32);
  statistics.feature_std = deviation.clamp_min(floor).to(torch::kFloat32);

  std::vector<BatchItem> items;
  const FrameSampler all_frames(FrameOrder::kInOrder, 0, 0);
  for (std::size_t exam : exams) {
    items.push_back({exam, all_frames.for_evaluation(dataset.sequences[exam].frames(), 0)});
  }
  const Batch all = make_batch(dataset, std::move(items));
  time_statistics(all, statistics);
  const auto [clock_mean, clock_deviation] =
      column_statistics(all.clock, torch::arange(all.clock.size(0), all.rows.options()));
  statistics.clock_mean = clock_mean.to(torch::kFloat32);
  statistics.clock_std = without_zeros(clock_deviation).to(torch::kFloat32);
  return statistics;
}

}  // namespace coldframe::temporal
