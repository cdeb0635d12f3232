#include "train_temporal/models/summary_model.h"

#include <torch/nn/utils/rnn.h>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

namespace {

constexpr double kNoSummary = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [N, W] packed → [B, T, W], with zeros behind the end of each sequence.
torch::Tensor pad_packed(const torch::Tensor& x, const PackedBatch& batch) {
  const torch::nn::utils::rnn::PackedSequence packed(x, batch.batch_sizes_tensor());
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(packed, /*batch_first=*/true));
}

// FrameGrid of exams side by side, [B, T, D], with 1 in `seen` where there is a value, else 0: of
// each feature, or [B, T, 1] where none can be missing.
struct FrameGrid {
  torch::Tensor values, seen;

  torch::Tensor count() const { return seen.sum(1); }
  torch::Tensor mean() const { return (values * seen).sum(1) / count(); }  // 0 / 0 is NaN
  // The value of the frame with the highest number in `places` [1, T, 1], which are above 0.
  torch::Tensor value_at(const torch::Tensor& places) const {
    const torch::Tensor at = (seen * places).argmax(1, true);  // [B, 1, D or 1]
    const torch::Tensor own = values.gather(1, at.expand({-1, -1, values.size(2)})).squeeze(1);
    return own.masked_fill(count() == 0, kNoSummary);
  }
  FrameGrid where(const torch::Tensor& kept) const { return {values, seen * kept}; }
};

FrameGrid grid_of(const torch::Tensor& x, const PackedBatch& batch, bool may_lack) {
  if (!may_lack)
    return {pad_packed(x, batch), pad_packed(torch::ones({x.size(0), 1}, x.options()), batch)};
  const torch::Tensor known = x.isnan().logical_not().to(x.scalar_type());
  return {pad_packed(x.nan_to_num(0.0), batch), pad_packed(known, batch)};
}

// 1, 2, …, T, or down from T, as [1, T, 1].
torch::Tensor places(const FrameGrid& frames, bool down) {
  torch::Tensor place = torch::arange(1, frames.values.size(1) + 1, frames.values.options());
  if (down) place = place.flip(0);
  return place.view({1, -1, 1});
}

torch::Tensor first(const FrameGrid& frames) {
  return frames.value_at(places(frames, true));
}
torch::Tensor last(const FrameGrid& frames) {
  return frames.value_at(places(frames, false));
}

torch::Tensor maximum(const FrameGrid& frames) {
  const torch::Tensor highest = frames.values.masked_fill(frames.seen == 0, -kInfinity).amax(1);
  return highest.masked_fill(frames.count() == 0, kNoSummary);
}

torch::Tensor deviation(const FrameGrid& frames) {
  const torch::Tensor from_mean = (frames.values - frames.mean().unsqueeze(1)) * frames.seen;
  const torch::Tensor variance = from_mean.square().sum(1) / frames.count();
  return variance.clamp_min(kMinSummaryVariance).sqrt();
}

// FrameGrid at unknown times are left out of slopes per second.
torch::Tensor slope(const FrameGrid& all, const PackedBatch& batch, bool per_second) {
  torch::Tensor time = places(all, false).expand({all.values.size(0), -1, 1});
  FrameGrid frames = all;
  if (per_second) {
    const auto column = [&](std::int64_t of) {
      return pad_packed(batch.tensors.time.narrow(1, of, 1), batch);
    };
    time = column(kSinceFirst);
    frames = all.where(column(kTimeKnown));
  }
  const FrameGrid times{time, frames.seen};
  const torch::Tensor from_mean = (time - times.mean().unsqueeze(1)) * frames.seen;
  const torch::Tensor spread = from_mean.square().sum(1);
  const torch::Tensor rise = (from_mean * frames.values).sum(1);
  return (rise / spread.masked_fill(spread == 0, 1)).masked_fill(frames.count() == 0, kNoSummary);
}

// Joined exams alone have several visits; of others the difference is 0.
torch::Tensor between_visits(const FrameGrid& frames, const PackedBatch& batch) {
  const torch::Tensor place = places(frames, false);  // [1, T, 1]
  std::vector<double> up_to, from;
  for (std::size_t b = 0; b < batch.exams.size(); ++b) {
    const VisitFrames& visits = batch.visits[b];
    const std::int64_t all = batch.lengths[b];
    up_to.push_back(static_cast<double>(visits.first > 0 ? visits.first : all));
    from.push_back(static_cast<double>(visits.own > 0 ? all - visits.own : 0));
  }
  const auto column = [&](const std::vector<double>& of) {
    return torch::tensor(of, frames.values.options()).view({-1, 1, 1});
  };
  const auto mean_where = [&](const torch::Tensor& kept) {
    return frames.where(kept.to(frames.seen.scalar_type())).mean();
  };
  return mean_where(place > column(from)) - mean_where(place <= column(up_to));
}

}  // namespace

std::string family_name(Family family) {
  static constexpr std::array<const char*, kFamilies> kNames = {
      "mean",       "maximum",      "minimum", "standard deviation",      "first frame",
      "last frame", "last − first", "slope",   "this visit − first visit"};
  return kNames.at(static_cast<std::size_t>(family));
}

bool depends_on_order(const std::string& name) {
  constexpr Family kOrderless[] = {Family::kAverage, Family::kMaximum, Family::kMinimum,
                                   Family::kDeviation};
  return std::ranges::find(kOrderless, name, family_name) == std::end(kOrderless);
}

torch::Tensor summarise(Family family, const torch::Tensor& features, const PackedBatch& batch,
                        const SummaryRead& read) {
  const FrameGrid frames = grid_of(features, batch, read.may_lack);
  switch (family) {
    case Family::kAverage:
      return frames.mean();
    case Family::kMaximum:
      return maximum(frames);
    case Family::kMinimum:
      return -maximum({-frames.values, frames.seen});
    case Family::kDeviation:
      return deviation(frames);
    case Family::kFirst:
      return first(frames);
    case Family::kLast:
      return last(frames);
    case Family::kChange:
      return last(frames) - first(frames);
    case Family::kSlope:
      return slope(frames, batch, read.per_second);
    case Family::kVisits:
      break;
  }
  return between_visits(frames, batch);
}

const Architecture kSummary{
    .name = "summary", .make = make<SummaryModel>, .per_frame = false, .by_steps = false};

std::span<const NamedModel> summary_models() {
  static constexpr NamedModel kSummaryNames[] = {
      {.name = kSummaryModel,
       .architecture = &kSummary,
       .about = "a linear model of one number of each feature over the frames",
       .compared = true,
       .learns_frames = false,
       .names_covariates = true},
  };
  return kSummaryNames;
}

SummaryModel::SummaryModel(const ModelConfig& config) : config_(config) {
  const std::vector<std::int64_t> table = {config.outputs, config.dimension};
  const std::vector<std::int64_t> row = {config.dimension};
  feature_mean = register_buffer("feature_mean", torch::zeros(row));
  feature_std = register_buffer("feature_std", torch::ones(row));
  family = register_buffer("family", torch::zeros({config.outputs}));
  per_second = register_buffer("per_second", torch::zeros({1}));
  summary_mean = register_buffer("summary_mean", torch::zeros(table));
  summary_std = register_buffer("summary_std", torch::ones(table));
  head = register_module("head", torch::nn::Linear(config.dimension, config.outputs));
}

std::map<std::string, double> SummaryModel::drawn_weights() const {
  const double bound = 1 / std::sqrt(static_cast<double>(config_.dimension));
  return {{"head.weight", bound}, {"head.bias", bound}};
}

void SummaryModel::set_statistics(const InputStatistics& statistics) {
  feature_mean.copy_(statistics.feature_mean);
  feature_std.copy_(statistics.feature_std);
}

bool SummaryModel::sees_times() const {
  const auto slope = static_cast<double>(Family::kSlope);
  return per_second.item<float>() > 0 && (family == slope).any().item<bool>();
}

torch::Tensor SummaryModel::summaries(Family of, const torch::Tensor& features,
                                      const PackedBatch& batch) {
  torch::Tensor seen = features;
  if (config_.only_stream >= 0) {
    torch::Tensor hidden = torch::ones({features.size(1)}, torch::kBool);
    const std::int64_t width = config_.stream_width();
    hidden.narrow(0, config_.only_stream * width, width).fill_(false);
    seen =
        features.masked_fill(hidden.to(features.device()), std::numeric_limits<float>::quiet_NaN());
  }
  return summarise(of, seen, batch, {per_second.item<float>() > 0, !config_.streams.empty()});
}

std::vector<torch::Tensor> SummaryModel::standardised(const torch::Tensor& features,
                                                      const PackedBatch& batch) {
  std::map<Family, torch::Tensor> known;
  std::vector<torch::Tensor> of_outputs;
  for (std::int64_t c = 0; c < config_.outputs; ++c) {
    const auto of = static_cast<Family>(family[c].item<float>());
    torch::Tensor& own = known[of];
    if (!own.defined()) own = summaries(of, features, batch);
    of_outputs.push_back(((own - summary_mean[c]) / summary_std[c]).nan_to_num(0.0));
  }
  return of_outputs;
}

torch::Tensor SummaryModel::forward(const torch::Tensor& features, const PackedBatch& batch,
                                    const Dropout&) {
  const std::vector<torch::Tensor> x = standardised(features, batch);
  std::vector<torch::Tensor> outputs;
  for (std::int64_t c = 0; c < config_.outputs; ++c)
    outputs.push_back(x[static_cast<std::size_t>(c)].matmul(head->weight[c]) + head->bias[c]);
  return torch::stack(outputs, 1);
}

}  // namespace coldframe::temporal
