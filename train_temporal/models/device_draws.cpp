#include "train_temporal/models/device_draws.h"

#include <algorithm>

#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "common/torch/to_device.h"
#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {

namespace {

constexpr std::int64_t kWordDraws = 4;  // of 16 bits

// x ^ (x >> bits) of words without a sign, which LibTorch does not multiply.
void fold(torch::Tensor& x, int bits) {
  const std::int64_t kept = (std::int64_t{1} << (64 - bits)) - 1;
  x.bitwise_xor_(x.bitwise_right_shift(bits).bitwise_and_(kept));
}

torch::Tensor there(const std::vector<std::uint64_t>& starts, const torch::Device& device) {
  const std::vector<std::int64_t> words(starts.begin(), starts.end());
  return to_device(torch::tensor(words, torch::kInt64), device);
}

// mix_bits() of starts[r] + i − i mod 4: four draws from each word, the lowest bits first.
torch::Tensor drawn_bits(const torch::Tensor& starts, std::int64_t width) {
  torch::Tensor x = starts.unsqueeze(1) + torch::arange(0, width, kWordDraws, starts.options());
  fold(x, 30);
  x.mul_(static_cast<std::int64_t>(kMixFactors[0]));
  fold(x, 27);
  x.mul_(static_cast<std::int64_t>(kMixFactors[1]));
  fold(x, 31);
  return x.view(torch::kInt16).narrow(1, 0, width);
}

torch::Tensor mask_of(const torch::Tensor& bits, std::uint16_t threshold, float scale) {
  constexpr std::int64_t kLeast =
      -(1 << 15);  // numbers without a sign in the order of those with one
  return bits.bitwise_xor(kLeast).ge(threshold + kLeast).to(torch::kFloat32).mul_(scale);
}

torch::Tensor noise_table(float deviation, const torch::Device& device) {
  const std::span quantiles(normal_quantiles(), kQuantiles);
  return to_device(
      torch::tensor(std::vector<float>(quantiles.begin(), quantiles.end())).mul_(deviation),
      device);
}

torch::Tensor noise_of(const torch::Tensor& bits, const torch::Tensor& table) {
  const torch::Tensor chosen = bits.bitwise_and(std::int64_t{kQuantiles} - 1);
  return table.index_select(0, chosen.flatten().to(torch::kInt32)).view(bits.sizes());
}

}  // namespace

torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device) {
  return mask_of(drawn_bits(there(starts, device), width), threshold, scale);
}

torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device) {
  return noise_of(drawn_bits(there(starts, device), width), noise_table(deviation, device));
}

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

namespace {

// Streams that are weighed take these: of each stream and at all, while it is done, in training and
// in evaluation, and what training keeps of it. PackedFrames::weigh() has so many tensors.
struct Gates {
  double each, once;
};
constexpr Gates kGates{8, 4}, kGatesKept{4, 3}, kGatesEvaluation{7, 4};

}  // namespace

StepValues::StepValues(const ModelConfig& config)
    : config_(config),
      tensors_(tensors_of(config)),
      D_(double(config.dimension)),
      H_(double(config.hidden)),
      C_(double(config.outputs)),
      L_(double(config.layers)),
      dirs_(config.architecture->recurrent && config.bidirectional ? 2 : 1),
      W_(H_ * dirs_),
      I_(H_ + (config.time ? double(config.time_inputs()) : 0)) {}

double StepValues::parameters() const {
  if (!config_.architecture->by_steps) return (D_ + 1) * C_;
  double sum = 0;
  for (const TensorRow& row : tensors_) sum += row.is_buffer ? 0 : row.size();
  return sum;
}

double StepValues::forward(double n, double b) const {
  return n * (D_ + I_ + 3 * H_ + W_ * L_ + 5 * H_ * L_ * dirs_) +
         b * (3 * H_ + H_ * L_ * dirs_ + W_ + C_);
}

double StepValues::backward(double n, double b) const {
  return n * (I_ + 4 * H_ + W_ * (2 * L_ - 1)) + b * (H_ + 3 * W_ + C_);
}

// In units of H.
double StepValues::activations(double n, double padded, bool keeps) const {
  const bool decays =
      config_.time && config_.time_encoding == TimeEncoding::kDecay && config_.architecture->decays;
  const KeptValues& kept =
      decays ? config_.architecture->kept_decaying : config_.architecture->kept;
  if (!keeps && kept.evaluation > 0) return n * kept.evaluation + padded * kept.evaluation_grid;
  return (n * (kept.once + kept.by_layer * L_ * dirs_) + padded * kept.grid_by_layer * L_) /
         (keeps ? 1 : 3);
}

// The features are there three times as they are standardised, then twice (in evaluation of a
// transformer or TCN, once).
double StepValues::by_autograd(double n, double b, double longest, bool keeps) const {
  if (!config_.architecture->sees_frames) {
    const auto project = std::ranges::find(tensors_, "project.weight", &TensorRow::name);
    return (config_.per_frame() ? n : b) * double(project->shape[1] + 3 * project->shape[0]);
  }
  const double padded = std::max(n, b * longest);
  if (!config_.architecture->by_steps) return (2 * n + 3 * padded) * D_;
  const bool recurrent = config_.architecture->recurrent;
  const bool once = !keeps && !recurrent && config_.architecture->ordered;
  const double copies = config_.only_stream >= 0 ? 1 : 0;
  const auto gates = [&](const Gates& one) {
    return config_.gated ? n * (one.each * double(std::ssize(config_.streams)) + one.once) : 0;
  };
  const double kept = keeps ? gates(kGatesKept) : 0;
  return std::max({(3 + copies) * n * D_,
                   2 * n * D_ + gates(keeps ? kGates : kGatesEvaluation) * H_,
                   (once ? 1 : 2) * n * D_ + (activations(n, padded, keeps) + kept) * H_}) +
         (keeps ? weights_beside() : 0);
}

// Weights that every step of a recurrent layer uses need a second gradient, which is added to the
// first (an LSTM's more); those of a convolution are kept in another order.
double StepValues::weights_beside() const {
  const std::string last = concat("_l", config_.layers - 1);
  if (!config_.architecture->by_steps) return (D_ + 1) * C_;
  double sum = 0;
  for (const TensorRow& row : tensors_) {
    const bool recurrent = config_.architecture->recurrent && row.name.ends_with(last) &&
                           row.name.find(".weight_") != std::string::npos;
    const bool convolves = row.shape.size() == 3 && row.shape.back() > 1;
    if (recurrent || convolves) sum += config_.architecture->kept.weights * row.size();
  }
  return sum;
}

}  // namespace coldframe::temporal
