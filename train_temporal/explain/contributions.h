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

// Integrated gradients (Sundararajan, Taly and Yan 2017, section 3) attribute a model's output for
// an exam to its frames, along the straight path from a baseline to the exam. The baseline is the
// training part's mean feature in every frame (zero, once standardised), with the exam's own times
// and covariates: so the attribution concerns the images. Gauss–Legendre quadrature doubles its
// points until the contributions add up to the difference that they explain (completeness axiom).
//
// Linear models of summaries have the training part's mean summary m as baseline: an exam of mean
// frames has no typical minimum. The path is straight in the summaries. With g_td = ∂s_d/∂x_td,
// the way s_d − m_d is frame t's  g_td (x_td − mean_d) − (m_d − s_d(mean frames)) |g_td| / Σ_t
// |g_td|.

inline constexpr double kCompleteness = 1e-4;  // max |Σ contributions − (output − baseline)|
inline constexpr std::size_t kMinPoints = 16, kMaxPoints = 512;

struct Contributions {
  std::vector<double> frames;  // of the exam's present frames; 0 for frames that the model ignores
  double output = 0, baseline = 0;  // the model's output for the exam and for its baseline
  std::size_t points = 0;           // of the quadrature
  // [present frames, D], the mean gradient along the path: its dot product with a frame's features
  // minus the mean frame's is the frame's contribution, but for a frame's share of the shift from
  // mean frames to the mean summary. Undefined for models without features.
  torch::Tensor gradient = {};

  double gap() const;  // |Σ frames − (output − baseline)|
};

// Maps logits [B, C] to the explained output [B]; differentiable.
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

// The contribution of every frame of an exam to a run's output for the exam.

// One exam and its explanation by TaskKind::explained().
struct ExplainedExam {
  std::size_t exam = 0;                   // index into the cache
  std::size_t target = 0;                 // of the models'
  std::optional<std::size_t> of_class{};  // the class whose probability is explained
  Contributions values = {};              // averaged over the models, like the output
  double largest_gap = 0;  // max over models; for a regression in standard deviations of labels
  bool keep_gradients = false;
  // If kept: each model's gradient with respect to the frames' features, [frames, D], scaled so
  // that the sum over models matches `values`.
  std::vector<torch::Tensor> gradients = {};
  bool from_mean_images = false, from_mean_summary = false;  // baselines of the models
  double unit = 0;  // for a number the mean standard deviation of its labels, else 1
};

// True for per-exam targets: there is one output of all frames to explain.
bool can_be_explained(const std::vector<Target>& targets);
// ConfigError unless can_be_explained(); names `option`.
void require_explained(const std::vector<Target>& targets, std::string_view option);

// Computes the values of `exams`, which state what to explain. Processes the models, all on the
// dataset's device, one after another: a tuned one loads a whole ViT. Calls `explained` after each
// exam of each model.
void explain_exams(std::span<TrainedModel> models, const Dataset& dataset,
                   std::span<ExplainedExam> exams, const std::function<void()>& explained);

// exam,frame,time_s,target,class,contribution,output,baseline: a row for every frame of the cache,
// 0 for missing ones. `output` and `baseline` are of the exam; contributions add up to their
// difference. `class` is empty unless a probability is explained.
std::string contributions_csv(const SequenceReader& cache, const ModelMetadata& card,
                              const std::vector<ExplainedExam>& exams);

// What `baseline` is of, in a few words and in a clause.
std::string baseline_name(const ExplainedExam& exam);
std::string baseline_text(const std::vector<ExplainedExam>& exams);
// A sentence on the error of the sums, compared with kCompleteness.
std::string completeness_text(const std::vector<ExplainedExam>& exams);
double largest_gap(const std::vector<ExplainedExam>& exams);

}  // namespace coldframe::temporal
