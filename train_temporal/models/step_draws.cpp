#include "train_temporal/models/step_draws.h"

#include <algorithm>

#include "train_temporal/models/device_draws.h"

namespace coldframe::temporal {

StepDraws::StepDraws(const ModelConfig& config, const Dropout& dropout, const torch::Device& device)
    : factors_(dropout.factors()) {
  for (const DrawnRow& row : draws_of(config))
    if (row.is_noise() ? dropout.noisy() : dropout.active()) rows_.push_back(row);
  std::ranges::stable_partition(rows_, [](const DrawnRow& row) { return !row.is_noise(); });
  if (dropout.noisy()) noise_table_ = noise_table(static_cast<float>(dropout.noise()), device);
}

std::vector<std::int64_t> StepDraws::starts(const Dropout& dropout,
                                            const PackedBatch& batch) const {
  std::vector<std::int64_t> all;
  for (const DrawnRow& row : rows_) {
    const auto own = dropout.starts(row.purpose, row.of_exams ? batch.exam_keys : batch.row_keys);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void StepDraws::draw(const torch::Tensor& starts, std::int64_t frames, std::int64_t exams) {
  std::int64_t masked = 0, mask_width = 0, width = 0;  // rows, and the widest of them
  for (const DrawnRow& row : rows_) {
    width = std::max(width, row.width);
    if (row.is_noise()) continue;
    masked += row.of_exams ? exams : frames;
    mask_width = std::max(mask_width, row.width);
  }
  if (rows_.empty()) return;
  const torch::Tensor bits = drawn_bits(starts, width);
  torch::Tensor masks;
  if (masked > 0)
    masks = mask_of(bits.narrow(0, 0, masked).narrow(1, 0, mask_width), factors_.threshold,
                    factors_.scale);
  std::int64_t begin = 0;
  for (const DrawnRow& row : rows_) {
    const std::int64_t count = row.of_exams ? exams : frames;
    const auto own = [&](const torch::Tensor& all) {
      return all.narrow(0, begin, count).narrow(1, 0, row.width);
    };
    drawn_[row.purpose] = row.is_noise() ? noise_of(own(bits), noise_table_) : own(masks);
    begin += count;
  }
}

}  // namespace coldframe::temporal
