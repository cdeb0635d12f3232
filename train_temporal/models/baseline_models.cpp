#include "train_temporal/models/baseline_models.h"

#include "train_temporal/models/ordered/ordered_model.h"

namespace coldframe::temporal {

const Architecture kMean{.name = "mean", .make = make<PooledModel>, .kept = {4.8}};
const Architecture kAttention{
    .name = "attention", .make = make<PooledModel>, .per_frame = false, .kept = {5.8}};
const Architecture kClock{
    .name = "clock",
    .make = make<ClockModel>,
    .sees_frames = false,
    .takes_covariates = false,
    .needs_whole_sequence =
        "it reads how many frames there are and how long they take, and no frame"};

PooledModel::PooledModel(const ModelConfig& config)
    : per_frame_(config.per_frame()), inputs_(*this, config) {
  if (!config.linear) {
    hidden = register_module("hidden", torch::nn::Linear(config.hidden, config.hidden));
  }
  if (config.architecture == &kAttention) {
    attention = register_module("attention", torch::nn::Linear(config.hidden, 1));
  }
  head = register_module("head", torch::nn::Linear(config.hidden, config.classes));
}

void PooledModel::set_statistics(const InputStatistics& statistics) {
  inputs_.set_statistics(statistics);
}

torch::Tensor PooledModel::forward(const torch::Tensor& features, const SequenceBatch& batch,
                                   const Dropout& dropout) {
  torch::Tensor x = inputs_(features, batch.row_keys, dropout);  // [N, H]
  if (!hidden.is_empty()) x = torch::gelu(hidden(x));
  if (per_frame_) return head(dropout(x, RandomPurpose::kHeadDropout, batch.row_keys));  // [N, C]
  const torch::Tensor frames = pad_packed(x, batch);  // [B, T, H]
  x = attention.is_empty() ? mean_over_frames(frames, batch)
                           : attention_over_frames(frames, attention(frames), batch);  // [B, H]
  return head(dropout(x, RandomPurpose::kHeadDropout, batch.exam_keys));               // [B, C]
}

torch::Tensor PooledModel::step(const torch::Tensor& features, const torch::Tensor&,
                                std::vector<torch::Tensor>&) {
  const torch::Tensor x = inputs_(features, {}, Dropout());  // [1, H]
  return hidden.is_empty() ? x : torch::gelu(hidden(x));
}

ClockModel::ClockModel(const ModelConfig& config) : per_frame_(config.per_frame()) {
  clock_mean = register_buffer("clock_mean", torch::zeros({config.clock_width}));
  clock_std = register_buffer("clock_std", torch::ones({config.clock_width}));
  if (per_frame_) {
    time_mean = register_buffer("time_mean", torch::zeros({2}));
    time_std = register_buffer("time_std", torch::ones({2}));
  }
  const std::int64_t inputs = config.clock_width + (per_frame_ ? kClockFrameInputs : 0);
  project = register_module("project", torch::nn::Linear(inputs, kClockHidden));
  head = register_module("head", torch::nn::Linear(kClockHidden, config.classes));
}

void ClockModel::set_statistics(const InputStatistics& statistics) {
  clock_mean.copy_(statistics.clock_mean);
  clock_std.copy_(statistics.clock_std);
  if (!per_frame_) return;
  time_mean.copy_(statistics.time_mean);
  time_std.copy_(statistics.time_std);
}

// Each frame's exam, and of the frame itself: where it stands among the exam's, from 0 to 1, the
// seconds since the first and whether these are unknown. [B, F] → [N, F + 3]
torch::Tensor ClockModel::of_frames(const torch::Tensor& exams, const SequenceBatch& batch) {
  std::vector<std::int64_t> exam;
  std::vector<float> place;
  for (const std::int64_t reaching : batch.sequences) {
    for (std::int64_t i = 0; i < reaching; ++i) {
      exam.push_back(i);
      place.push_back(static_cast<float>(batch.positions[place.size()]));
    }
  }
  const torch::Tensor of = torch::tensor(exam, torch::kInt64).to(exams.device());
  const torch::Tensor last =
      (batch.clock.select(1, kClockLogFrames).expm1() - 1).clamp_min(1);  // [B]
  const torch::Tensor known = batch.time.narrow(1, kTimeKnown, 1);
  const torch::Tensor since = (batch.time.narrow(1, kSinceFirst, 1) - time_mean.narrow(0, 1, 1)) /
                              time_std.narrow(0, 1, 1) * known;
  return torch::cat(
      {exams.index_select(0, of),
       (torch::tensor(place).to(exams.device()) / last.index_select(0, of)).unsqueeze(1), since,
       1 - known},
      1);
}

torch::Tensor ClockModel::forward(const torch::Tensor&, const SequenceBatch& batch,
                                  const Dropout& dropout) {
  torch::Tensor x = (batch.clock - clock_mean) / clock_std;  // [B, F]
  dropout.add_noise(batch.exam_keys, x);
  if (per_frame_) x = of_frames(x, batch);
  x = torch::relu(project(x));  // [B, 32]
  return head(
      dropout(x, RandomPurpose::kHeadDropout, per_frame_ ? batch.row_keys : batch.exam_keys));
}

}  // namespace coldframe::temporal
