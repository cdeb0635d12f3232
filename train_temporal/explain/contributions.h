// What each frame adds to an output: integrated gradients, and their tables.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// Integrated gradients (Sundararajan, Taly and Yan 2017, section 3) say how much each frame of an
// exam adds to what a model says of it, on the straight way from a baseline to the exam. The
// baseline is the training part's mean feature in every frame (zero, once standardised), at the
// exam's own times and covariates: what is explained is what the images say. The integral is taken
// by Gauss–Legendre quadrature with twice as many points until the contributions add up to the
// difference that they explain (the axiom of completeness).

inline constexpr double kCompleteness = 1e-4;  // largest |Σ contributions − (output − baseline)|
inline constexpr std::size_t kMinPoints = 16, kMaxPoints = 512;

struct Contributions {
  std::vector<double> frames;       // of the exam's present frames; 0 where the model does not look
  double output = 0, baseline = 0;  // what the model says of the exam and of its baseline
  std::size_t points = 0;           // of the quadrature
  // [present frames, D], the mean gradient on the way: a frame's features, less the baseline's, add
  // up to its contribution with it. Undefined for a model that sees no features.
  torch::Tensor gradient = {};

  double gap() const;  // |Σ frames − (output − baseline)|
};

// Logits [B, C] → what is explained, [B]; differentiable.
using ExplainedOutput = std::function<torch::Tensor(const torch::Tensor& logits)>;

// `fit_seed`: of the model's fit; `shuffled` permutes frames with it.
Contributions integrated_gradients(SequenceModel& model, const Dataset& dataset,
                                   const ModelConfig& config, std::uint64_t fit_seed,
                                   std::size_t exam, const ExplainedOutput& output);

// Points and weights on [0, 1] (Press et al., Numerical Recipes, section 4.6: roots of the Legendre
// polynomial by Newton's method).
struct Quadrature {
  std::vector<double> points, weights;
};
Quadrature gauss_legendre(std::size_t points);

// Every frame of an exam has a contribution: what it adds to what a run says of the exam.

// One exam, of which TaskKind::explained() is.
struct ExplainedExam {
  std::size_t exam = 0;                   // index into the cache
  std::size_t target = 0;                 // of the models'
  std::optional<std::size_t> of_class{};  // whose probability it is
  Contributions values = {};              // averaged over the models, as the output is
  double largest_gap = 0;  // of any model; of a regression in standard deviations of its labels
  bool keep_gradients = false;
  // If they are kept: each model's gradient by the frames' features, [frames, D]. Over the models
  // they add up to the scale of `values`.
  std::vector<torch::Tensor> gradients = {};
  double unit = 0;  // of a number the mean standard deviation of its labels, else 1
};

// True when there is one output of all frames to explain: targets are of exams.
bool can_be_explained(const std::vector<Target>& targets);
// ConfigError where there is none; `option` asked for it.
void require_explained(const std::vector<Target>& targets, std::string_view option);

// Fills in the values of exams that say what is to be explained. The models, all on the dataset's
// device, go one after another: one that was tuned brings a whole ViT with it. `explained` is
// called after each exam of each model.
void explain_exams(std::span<TrainedModel> models, const Dataset& dataset,
                   std::span<ExplainedExam> exams, const std::function<void()>& explained);

// exam,frame,time_s,target,class,contribution,output,baseline: a row for every frame of the cache,
// 0 for one that is missing; `output` and `baseline` are the exam's, and contributions add up to
// their difference. `class` is empty where no probability is explained.
std::string contributions_csv(const SequenceReader& cache, const ModelMetadata& card,
                              const std::vector<ExplainedExam>& exams);

// Says in words how far the sums are from what they explain, against kCompleteness.
std::string completeness_text(const std::vector<ExplainedExam>& exams);
double largest_gap(const std::vector<ExplainedExam>& exams);

}  // namespace coldframe::temporal
