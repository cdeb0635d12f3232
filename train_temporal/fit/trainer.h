// Fits one model on one training part and predicts the held-out exams with its best weights.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/torch/device.h"
#include "common/torch/safetensors.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/fit/optimizer.h"
#include "train_temporal/fit/step.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/fit/tune/tuned_vit.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// Training settings of the ViT in a tuned fit; those of the head are in FitOptions.
struct TuneFit {
  tune::TuneOptions vit;
  double learning_rate = 5e-5;  // at its highest
  // The learning rate of a model that goes on from a fit, in units of FitOptions::learning_rate:
  // the whole would undo that fit in its first steps.
  double model_rate = 0.1;
  double dropout = 0;  // after attention and MLP of each trained block
  int threads = 1;     // of LibTorch; rounding of sums depends on it
  // Max bytes of the whole fit; 0: vit.budget bounds the ViT's step, the rest is unbounded.
  std::uint64_t budget = 0;
};

struct FitOptions {
  std::size_t epochs = 60;      // at most
  std::size_t batch = 16;       // exams per step
  std::size_t micro_batch = 0;  // exams at a time within a step; 0: all
  double learning_rate = 2e-3;  // at its highest
  double warmup = 0.05;         // fraction of all steps
  double weight_decay = 0.01;   // of matrices
  double clip = 1.0;            // max gradient norm; 0: no clipping
  std::size_t patience = 20;    // max epochs without a better validation loss; 0: never stop early
  std::int64_t train_frames = 0;  // frames drawn per exam and epoch; 0: all
  double noise = 1;               // standard deviation of the noise added to standardised inputs
  double mixup = 0;               // α of mixup's Beta distribution, see objective.h; 0: no mixup
  StoppingMetric stopping_metric = StoppingMetric::kLoss;
  ObjectiveOptions objective;
  bool balanced = false;  // an epoch has the same number of exams of every class
  torch::ScalarType precision = torch::kFloat32;  // of matrix products; see MixedPrecision
  std::optional<bool> recorded = {};              // record steps where possible; not set: on a GPU
  Schedule schedule = Schedule::kCosine;
  TuneFit tune;  // of fits that tune
};

// Number of exams that go through the model at a time. Both are halved if memory runs out.
struct MicroBatches {
  std::size_t training = 0, evaluation = 0;

  bool operator==(const MicroBatches&) const = default;
};

struct EpochLosses {
  double train = 0, validation = 0, learning_rate = 0;
  double figure = 0;  // what early stopping watches besides the loss, see StoppingMetric
  std::optional<double> measured = {};  // validation_figure(), watched or not
};

// The loss scale against underflow of float16 gradients: halved if a gradient is not finite, in
// which case the step is skipped; doubled after many finite ones (Micikevicius et al. 2018, with
// PyTorch's constants).
struct LossScale {
  double factor = 65536;
  std::size_t steady = 0;  // steps since the last change

  void update(bool finite) {
    constexpr std::size_t kSteadySteps = 2000;
    if (!finite) {
      factor = std::max(factor / 2, 1.0);
      steady = 0;
    } else if (++steady == kSteadySteps) {
      factor *= 2;
      steady = 0;
    }
  }
};

// The state of a fit between epochs, as in a checkpoint. Tensors [P]: all parameters in one vector,
// those of the ViT after those of the model.
struct FitState {
  std::uint64_t seed = 0;
  std::vector<EpochLosses> history;
  EarlyStop early_stop;
  std::int64_t steps = 0;
  MicroBatches micro_batches;  // learnt
  LossScale loss_scale;
  std::uint64_t vit_budget = 0;  // learnt, see TunedVit::learnt_budget()
  std::uint64_t vit_peak = 0;    // see TunedVit::peak_bytes()
  torch::Tensor parameters, first_moment, second_moment, best_parameters;
};

struct FitTask {
  const Dataset& dataset;
  const Targets& targets;
  const Split& split;
  ModelConfig config;
  FitOptions options;
  std::uint64_t seed;
  std::size_t threads = 1;  // CPU threads; results do not depend on it
  const tune::TunedSource* tuned =
      nullptr;  // the ViT that is trained too; null: features as cached
  // Initial weights, which epoch 0 evaluates without change; null: new ones.
  std::shared_ptr<const StateDict> start = nullptr;
  torch::Tensor covariates = {};                       // SequenceModel::covariates
  const std::vector<std::string>* patients = nullptr;  // of every exam; for fit_summary() alone
  bool hides_times = false;                            // from fit_summary(), likewise

  // The model's, at its highest: of one that starts anew, the given one.
  double learning_rate() const {
    return options.learning_rate * (start ? options.tune.model_rate : 1);
  }
};

struct TuneMemory;  // memory_plan.h

// The result of a fit.
struct FitRecord {
  StateDict weights, tuned;  // best weights of the model and of the trained part of the ViT
  std::uint64_t seed = 0;
  std::vector<EpochLosses> history;
  std::size_t best_epoch = 0;
  std::uint64_t vit_budget = 0, vit_peak = 0;  // as in FitState
  bool diverged = false;                       // the epoch after `history` had a non-finite loss
  MicroBatches micro_batches;
  // [n, C] in the order of the split's exams; one row per frame for per-frame targets.
  std::vector<double> validation_logits, test_logits;
  std::vector<double> train_logits;  // for Cox targets only, to fit the baseline
  std::vector<double> families;      // of the model summary: its tensor of that name, [C]
  // Set for a summary that found something: it replaces the sequence model unless that model's
  // validation loss is lower by more than this.
  std::optional<double> lead;
};

// Duration of a fit's last epoch.
struct LastEpoch {
  double train_seconds = 0, seconds = 0;  // `seconds` with validation
  std::int64_t steps = 0;
};

class Trainer {
 public:
  explicit Trainer(const FitTask& task);
  ~Trainer();  // waits for the device

  bool finished() const;  // after all epochs, out of patience, or diverged
  void run_epoch();
  FitRecord finish();  // restores the best weights; the initial ones if no epoch had a finite loss

  FitState state() const;
  // Continues from `state`. DataError if it belongs to another fit.
  void restore(const FitState& state);
  const std::vector<EpochLosses>& history() const { return history_; }
  const MicroBatches& micro_batches() const { return micro_batches_; }
  const LastEpoch& last_epoch() const { return last_epoch_; }  // empty after restore()
  const FitTask& task() const { return task_; }

 private:
  Trainer(const FitTask& task, const TuneMemory& memory);
  double train_epoch(std::size_t epoch, double& learning_rate);
  std::vector<BatchItem> batch_items(std::span<const std::size_t> exams, std::size_t epoch) const;
  std::size_t view_of(std::size_t exam, std::size_t epoch) const;
  std::unique_ptr<RecordedStep> make_recorded_step();
  // False if this step, and all later ones, must run without recording.
  bool step_recorded(const std::vector<BatchItem>& items, std::size_t epoch, double learning_rate,
                     LossSum& sum);
  void update_parameters(double learning_rate);
  double loss_of(const std::vector<std::size_t>& exams);
  LossSum gradients(const std::vector<BatchItem>& items, std::size_t epoch);
  LossSum try_gradients(const std::vector<BatchItem>& items, std::size_t epoch);
  Dropout dropout_in(std::size_t epoch) const;
  std::vector<double> predict(const std::vector<std::size_t>& exams);
  std::vector<double> predict_loaded(const std::vector<std::size_t>& exams);
  std::vector<std::size_t> order_of(std::size_t epoch) const;
  std::int64_t steps_per_epoch() const;
  std::uint64_t vit_peak() const;

  FitTask task_;
  OwnStream stream_;                     // CUDA stream of the epochs, so that fits overlap on a GPU
  std::unique_ptr<tune::TunedVit> vit_;  // null if features are as cached
  std::unique_ptr<FeatureSource> source_;
  const Dataset& dataset_;  // the source's window
  std::shared_ptr<SequenceModel> model_;
  AdamW optimizer_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<FusedStep> fused_;  // null if autograd computes gradients
  FrameSampler sampler_;
  Objective objective_;
  std::unique_ptr<RecordedStep> recorded_;  // null on the CPU and for unsupported configurations
  std::size_t items_at_hand_ = 0;           // exams of the step that are in the model now
  EarlyStop early_stop_;
  bool diverged_ = false;
  std::vector<EpochLosses> history_;
  LastEpoch last_epoch_;
  MicroBatches micro_batches_;
  LossScale loss_scale_;        // of float16
  std::uint64_t vit_peak_ = 0;  // before restore()
  torch::Tensor best_parameters_;
};

// True if the steps of a fit are recorded, as long as memory holds all exams of a step.
bool records_steps(const FitTask& task);

// Micro-batches as the options request them, before memory limits them.
MicroBatches first_micro_batches(const FitTask& task);

// Checkpoints of running fits and records of finished ones: safetensors files, with small values as
// JSON in the metadata.

void write_checkpoint(const std::filesystem::path& path, const FitState& state);
FitState read_checkpoint(const std::filesystem::path& path);  // DataError

void write_record(const std::filesystem::path& path, const FitRecord& record);
FitRecord read_record(const std::filesystem::path& path);  // DataError

}  // namespace coldframe::temporal
