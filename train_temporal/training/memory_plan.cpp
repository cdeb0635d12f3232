#include "train_temporal/training/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "train_temporal/models/baseline_models.h"
#include "train_temporal/models/gru_model.h"
#include "train_temporal/training/tune_memory.h"

namespace coldframe::temporal {
namespace {

// Predictions, features included, were 0.92 to 1.10 of what 60 fits took (gru, lstm, attention and
// mean, H 64 and 256, 1 to 3 layers, one and both ways, log, decay and time2vec; 5 × 64, 12 × 384
// and 64 × 1280 frames × D; batch 32).
constexpr double kFloat = sizeof(float);
constexpr double kErrs = 1.1;  // how far a prediction may be above what is needed

// Values per frame, in units of H, that autograd keeps at the highest point of a step; measured
// with LibTorch 2.11. Of recurrent layers: once, and for each layer and direction.
constexpr double kMeanActivations = 4.8, kAttentionActivations = 5.8;
constexpr double kRecurrentActivations = 9.3, kLayerActivations = 7.4;

struct Frames {
  double mean = 0, deviation = 0, most = 0;

  // Frames of `exams` exams together, as a training run will meet them.
  double of(double exams) const {
    return std::min(exams * most, exams * mean + 3 * std::sqrt(exams) * deviation);
  }
};

Frames frames_of(const Dataset& dataset, const std::vector<std::size_t>& exams,
                 std::int64_t at_most) {
  Frames frames;
  double squares = 0;
  for (std::size_t exam : exams) {
    auto count = static_cast<double>(dataset.sequences[exam].frames());
    if (at_most > 0) count = std::min(count, static_cast<double>(at_most));
    frames.mean += count;
    squares += count * count;
    frames.most = std::max(frames.most, count);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(exams.size(), 1));
  frames.mean /= n;
  frames.deviation = std::sqrt(std::max(0.0, squares / n - frames.mean * frames.mean));
  return frames;
}

struct Shapes {
  double D, H, C, F, L, dirs, W, I;
  bool recurrent, attends, clock, per_frame, mixed;
  double gates;
  bool fused;

  explicit Shapes(const FitTask& task)
      : D(double(task.config.dimension)),
        H(double(task.config.hidden)),
        C(double(task.config.classes)),
        F(double(task.config.clock_width)),
        L(double(task.config.layers)),
        dirs(task.config.bidirectional ? 2 : 1),
        W(H * dirs),
        I(H + (task.config.time ? double(kTimeInputs) : 0)),
        recurrent(is_recurrent(task.config.architecture)),
        attends(task.config.architecture == ModelKind::kAttention),
        clock(task.config.architecture == ModelKind::kClock),
        per_frame(task.config.per_frame()),
        mixed(task.options.mixup > 0),
        gates(task.config.architecture == ModelKind::kLstm ? 4 : 3),
        fused(task.tuned == nullptr && task.config.architecture == ModelKind::kGru &&
              task.config.time_encoding == TimeEncoding::kLog && task.dataset.device.is_cpu() &&
              task.options.precision == torch::kFloat32) {}

  double matrices() const {
    if (clock) return kClockHidden * (F + C);
    if (!recurrent) return D * H + H * H + H * C;
    return D * H + W * C + dirs * gates * H * ((I + H) + (L - 1) * (W + H));
  }
  double forward(double n, double b) const {
    return n * (D + I + 3 * H + W * L + 5 * H * L * dirs) + b * (3 * H + H * L * dirs + W + C);
  }
  double backward(double n, double b) const {
    return n * ((mixed ? D : 0) + I + 4 * H + W * (2 * L - 1)) + b * (H + 3 * W + C);
  }
  // The features are there three times as they are standardised, then twice.
  double by_autograd(double n, double b, bool keeps) const {
    if (clock) return (per_frame ? n : b) * (F + 3 * kClockHidden);
    const double layers = recurrent ? kRecurrentActivations + kLayerActivations * L * dirs
                          : attends ? kAttentionActivations
                                    : kMeanActivations;
    // Weights that every step of a layer uses get a gradient beside the one that it is added to.
    const double added = recurrent && keeps ? gates * H * ((L > 1 ? W : I) + H) : 0;
    return n * std::max(3 * D, 2 * D + (keeps ? layers : layers / 3) * H) + added;
  }
};

// The piece is cut as FusedStep cuts it.
double training_values(const Shapes& shapes, const Frames& frames, double exams,
                       double parameters) {
  if (!shapes.fused) return shapes.by_autograd(frames.of(exams), exams, true);
  const double shards = std::clamp(std::floor(exams / kExamsPerShard), 1.0, double(kMostShards));
  const double each = std::ceil(exams / shards), n = frames.of(each);
  return shards * (shapes.forward(n, each) + shapes.backward(n, each)) + (shards - 1) * parameters;
}

double evaluation_values(const Shapes& shapes, const FitTask& task, std::size_t at_once) {
  double most = 0;
  for (const auto* exams : {&task.split.validation, &task.split.test}) {
    const Frames frames = frames_of(task.dataset, *exams, 0);
    const auto each = static_cast<double>(std::min(at_once, exams->size()));
    const double pieces = std::ceil(double(exams->size()) / std::max(each, 1.0));
    const double n = frames.of(each);
    const double passes = std::min(double(task.threads), pieces);
    most = std::max(
        most, shapes.fused ? passes * shapes.forward(n, each) : shapes.by_autograd(n, each, false));
  }
  return most;
}

}  // namespace

FitMemory predict_memory(const FitTask& task, const PieceSizes& pieces) {
  const Shapes shapes(task);
  const double parameters = shapes.matrices();  // biases are too few to count
  const Frames frames = frames_of(task.dataset, task.split.train, task.options.train_frames);
  const auto exams = static_cast<double>(std::min(pieces.training, task.split.train.size()));
  const auto bytes = [](double values) { return static_cast<std::uint64_t>(kFloat * values); };
  FitMemory memory;
  memory.fixed = bytes((shapes.fused ? 7 : 6) * parameters + 4 * shapes.D);
  memory.training = bytes(training_values(shapes, frames, exams, parameters));
  memory.evaluation =
      bytes(evaluation_values(shapes, task, pieces.evaluation) + (shapes.fused ? parameters : 0));
  if (!shapes.fused) {  // what a step kept is gone when evaluation begins
    memory.training = std::max(memory.training, memory.evaluation);
    memory.evaluation = 0;
  }
  if (task.tuned != nullptr) {
    const TuneMemory vit = plan_tuning(task);
    memory.fixed += vit.parameters + vit.rows;
  }
  return memory;
}

PieceSizes pieces_that_fit(const FitTask& task, PieceSizes pieces, std::uint64_t available) {
  const auto fits = [&] {
    const FitMemory memory = predict_memory(task, pieces);
    return double(memory.training + memory.evaluation) <= kErrs * double(available);
  };
  while (!fits() && (pieces.training > 1 || pieces.evaluation > 1)) {
    std::size_t& larger = pieces.evaluation > pieces.training ? pieces.evaluation : pieces.training;
    larger = (larger + 1) / 2;
  }
  return pieces;
}

}  // namespace coldframe::temporal
