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

// Training settings of the ViT's part of a tuned fit; the head's are FitOptions.
struct TuneFit {
  tune::TuneOptions vit;
  double learning_rate = 5e-5;  // at its highest
  double dropout = 0;           // behind attention and perceptron of each trained block
  int threads = 1;              // of LibTorch; the sums depend on it
  // Bytes that all of a fit may take; 0: vit.budget bounds the ViT's step, and nothing the rest.
  std::uint64_t budget = 0;
};

struct FitOptions {
  std::size_t epochs = 60;        // at most
  std::size_t batch = 16;         // exams per step
  std::size_t micro_batch = 0;    // exams at a time within a step; 0: all
  double learning_rate = 2e-3;    // at its highest
  double warmup = 0.05;           // share of all steps
  double weight_decay = 0.01;     // of matrices
  double clip = 1.0;              // of the gradient's norm; 0: none
  std::size_t patience = 20;      // epochs without a better validation loss; 0: never stop early
  std::int64_t train_frames = 0;  // frames drawn per exam and epoch; 0: all
  double noise = 1;               // deviation of what is added to standardised inputs
  double mixup = 0;               // α of the shares, see objective.h; 0: none
  StoppingMetric stopping_metric = StoppingMetric::kLoss;
  ObjectiveOptions objective;
  bool balanced = false;  // every class has the same number of exams in an epoch
  torch::ScalarType precision = torch::kFloat32;  // of matrix products; see MixedPrecision
  std::optional<bool> recorded = {};              // steps, where they can be; not set: on a GPU
  Schedule schedule = Schedule::kCosine;
  TuneFit tune;  // of fits that tune
};

// Exams that go through the model at a time. Both are halved when memory runs out.
struct MicroBatches {
  std::size_t training = 0, evaluation = 0;

  bool operator==(const MicroBatches&) const = default;
};

struct EpochLosses {
  double train = 0, validation = 0, learning_rate = 0;
  double figure = 0;  // what early stopping watches beside the loss, see StoppingMetric
  std::optional<double> measured = {};  // validation_figure(), watched or not
};

// The factor that keeps float16 gradients from underflow: halved when a gradient is no finite
// number, whose step is left out; doubled after many that were (Micikevicius et al. 2018, with
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

// A fit after whole epochs: what a checkpoint holds. Tensors [P], all parameters in one vector, the
// ViT's behind the model's.
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
  std::size_t threads = 1;  // of the CPU; results do not depend on it
  const tune::TunedSource* tuned =
      nullptr;  // the ViT that is trained too; null: features as cached
  // The weights to go on from, which epoch 0 measures and does not change; null: new ones.
  std::shared_ptr<const StateDict> start = nullptr;
  torch::Tensor covariates = {};                       // SequenceModel::covariates
  const std::vector<std::string>* patients = nullptr;  // of every exam; for fit_summary() alone
  bool hides_times = false;                            // from fit_summary(), likewise
};

struct TuneMemory;  // memory_plan.h

// What is left of a fit.
struct FitRecord {
  StateDict weights, tuned;  // the model's best, and those of what was trained of the ViT
  std::uint64_t seed = 0;
  std::vector<EpochLosses> history;
  std::size_t best_epoch = 0;
  std::uint64_t vit_budget = 0, vit_peak = 0;  // as in FitState
  bool diverged = false;  // the epoch after the last of `history` had a loss that is not finite
  MicroBatches micro_batches;
  // [n, C] in the order of the split's exams; a row per frame where targets are.
  std::vector<double> validation_logits, test_logits;
  std::vector<double> train_logits;  // of Cox's targets alone: of these comes the baseline
  std::vector<double> families;      // of the model summary: its tensor of that name, [C]
  // Set for a summary that found something: the model whose place it would take stays only if its
  // validation loss is lower by more than this.
  std::optional<double> lead;
};

// What a fit's last epoch took.
struct LastEpoch {
  double train_seconds = 0, seconds = 0;  // `seconds` with validation
  std::int64_t steps = 0;
};

class Trainer {
 public:
  explicit Trainer(const FitTask& task);
  ~Trainer();  // waits for a device

  bool finished() const;  // after all epochs, out of patience, or diverged
  void run_epoch();
  FitRecord finish();  // restores the best weights: the first ones when no epoch had a finite loss

  FitState state() const;
  // Continues where `state` was taken. DataError when it belongs to another fit.
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
  // False where the step has to be done otherwise, as all that come after it.
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
  OwnStream stream_;                     // of the epochs, so that fits overlap on a GPU
  std::unique_ptr<tune::TunedVit> vit_;  // null where features are as cached
  std::unique_ptr<FeatureSource> source_;
  const Dataset& dataset_;  // the source's window
  std::shared_ptr<SequenceModel> model_;
  AdamW optimizer_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<FusedStep> fused_;  // null where autograd does the work
  FrameSampler sampler_;
  Objective objective_;
  std::unique_ptr<RecordedStep> recorded_;  // null on a CPU, and for what it does not do
  std::size_t items_at_hand_ = 0;           // of the step; they go through the model now
  EarlyStop early_stop_;
  bool diverged_ = false;
  std::vector<EpochLosses> history_;
  LastEpoch last_epoch_;
  MicroBatches micro_batches_;
  LossScale loss_scale_;        // of float16
  std::uint64_t vit_peak_ = 0;  // before restore()
  torch::Tensor best_parameters_;
};

// True where the steps of a fit are recorded, as long as memory holds all exams of one.
bool records_steps(const FitTask& task);

// Exams at a time as the options ask for them, before memory has its say.
MicroBatches first_micro_batches(const FitTask& task);

// A fit leaves a checkpoint on disk while it runs, and a record when it is done. Both are
// safetensors files with the small things as JSON in their metadata.

void write_checkpoint(const std::filesystem::path& path, const FitState& state);
FitState read_checkpoint(const std::filesystem::path& path);  // DataError

void write_record(const std::filesystem::path& path, const FitRecord& record);
FitRecord read_record(const std::filesystem::path& path);  // DataError

}  // namespace coldframe::temporal
