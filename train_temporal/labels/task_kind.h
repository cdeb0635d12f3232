// The loss of one target and its gradient with respect to the head's outputs, explicit and in
// double precision: the same code serves the fused kernels and the models that LibTorch
// differentiates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "train_temporal/labels/target.h"

namespace coldframe::temporal {

enum class LossKind {
  kAuto,   // by task: cross-entropy, CORN, squared error, or Cox's likelihood
  kFocal,  // classes: −(1 − p)^γ log p (Lin et al. 2017)
  kMse,    // regression: e² of standardised numbers
  kHuber,  // regression: e² / 2 up to |e| = δ, beyond it δ (|e| − δ / 2) (Huber 1964)
};
struct LossOptions {
  LossKind kind = LossKind::kAuto;
  double parameter = 0;  // γ or δ

  bool operator==(const LossOptions&) const = default;
};
// auto, focal, focal=GAMMA (default 2), mse, huber, huber=DELTA (default 1). ConfigError.
LossOptions parse_loss(const std::string& text);
std::string to_string(const LossOptions& options);
bool applies(const LossOptions& options, Task task);

// Weight in the loss of an exam of class c, [C].
using ClassWeights = std::vector<double>;
ClassWeights equal_weights(std::size_t classes);
// N / (C · N_c) over the C classes that have exams, so that all classes have the same total weight.
// 1 for a class without exams (only a validation part can have some of it).
ClassWeights balanced_weights(std::span<const std::size_t> count);

class RowLoss;  // task_kind.h

// For a loss that couples the rows of a batch: the loss of each row, [n], and the gradient of the
// sum with respect to each row's single output, [n].
struct BatchLoss {
  std::vector<double> loss, gradient;
};

class TargetLoss {
 public:
  // `weights`: of the classes; numbers and times: none. If `options` do not apply to the task, the
  // loss is that of kAuto. `smoothing`: label smoothing ε of the cross-entropy, the fraction spread
  // uniformly over all classes (Szegedy et al. 2016).
  TargetLoss(const Target& target, const LossOptions& options, ClassWeights weights,
             const Readout& readout, double smoothing = 0);

  std::size_t outputs() const { return outputs_; }
  const ClassWeights& weights() const { return weights_; }
  // Cross-entropy without more: LibTorch has it, too.
  bool is_cross_entropy() const;

  // True for Cox's loss, which couples all labelled rows of a batch.
  bool is_of_batch() const;
  BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const;

  // What a row with label `value` adds to the divisor of a mean loss; 0 without a label. Cox: 1 for
  // an event, 0 if censored. `value`: the class index, the number in the unit of the column, or a
  // survival_label(); NaN: no label.
  double weight(double value) const;
  // The weighted loss of outputs z [outputs]; `gradient`, unless null, receives the gradient of the
  // loss divided by `total`. Both are 0 without a label.
  double operator()(std::span<const double> z, double value, double total, float* gradient) const;

 private:
  std::size_t outputs_;
  ClassWeights weights_;
  std::shared_ptr<const RowLoss> of_row_;
};

// The operations with which a task defines the output to explain. LibTorch evaluates them with
// gradients, so tasks do not depend on autograd.

class OutputOperations {
 public:
  virtual ~OutputOperations() = default;

  enum class Value : std::size_t {};  // index of a table [..., C]

  virtual Value divided(Value x, double divisor) = 0;
  virtual Value softmax(Value x) = 0;
  virtual Value sigmoid(Value x) = 0;
  virtual Value cumulative_product(Value x) = 0;  // over the columns
  // [..., 1]: the sum of the columns, weighted by `weights` [C].
  virtual Value sum(Value x, const std::vector<double>& weights) = 0;
  virtual Value column(Value x, std::size_t number) = 0;  // [..., 1]
};

// Base of interpreters: stores what each Value stands for.
template <class Kept>
class KeepingOperations : public OutputOperations {
 public:
  Value keep(Kept kept) {
    kept_.push_back(std::move(kept));
    return Value{kept_.size() - 1};
  }
  const Kept& at(Value x) const { return kept_[static_cast<std::size_t>(x)]; }

 private:
  std::vector<Kept> kept_;
};

// What a linear model is fitted to: the labels of rows, and the loss of their outputs.

struct RowLabels {
  enum class Loss {
    kLogistic,  // per output: log(1 + exp(z)) − y z
    kSoftmax,   // cross-entropy of the classes
    kSquares,   // (z − y)² / 2
    kCox,       // Cox's negative log partial likelihood, with Efron's ties
  };
  Loss loss = Loss::kLogistic;
  std::size_t outputs = 1;  // C
  // [n, C] for kLogistic (0 or 1) and kSquares; NaN: no label, so the row does not count for that
  // output. Else [n]: the class or a survival_label(), never missing.
  std::vector<double> value = {};

  std::size_t width() const {  // labels of a row
    return loss == Loss::kLogistic || loss == Loss::kSquares ? outputs : 1;
  }
  std::size_t rows() const { return value.size() / width(); }
  bool of_classes() const {  // each row has one class index in `value`: discriminants apply
    return loss == Loss::kSoftmax || (loss == Loss::kLogistic && outputs == 1);
  }
  RowLabels at(const std::vector<std::size_t>& rows) const;
  // The approximate mean second derivative of a row's loss; scales the steps.
  double curvature() const;
};

// The sum of the losses of outputs z [n, C], and its gradient [n, C].
double loss_of(const RowLabels& labels, std::span<const double> z, std::span<double> gradient);

// The logistic function and its integral, without overflow.

inline double logistic(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// log(1 + exp(x))
inline double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// A task: which labels it reads, what a model's outputs mean, how they are learnt, and how tables
// and reports show them. Each task is one stateless object; what belongs to one target is in
// Target.

// The loss of one row that has a label, and its gradient.
class RowLoss {
 public:
  virtual ~RowLoss() = default;
  // What the row adds to the divisor of a mean.
  virtual double weight(double label) const = 0;
  // The loss of outputs z [outputs]; `gradient`, unless null, receives the gradient of the loss
  // divided by `total`.
  virtual double operator()(std::span<const double> z, double label, double total,
                            float* gradient) const = 0;
  // Cross-entropy without more: LibTorch has it, too.
  virtual bool is_cross_entropy() const { return false; }
  // True if the loss couples all rows of a batch, as Cox's does: a single row has none.
  virtual bool is_of_batch() const { return false; }
  virtual BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const {
    (void)z, (void)label;
    return {};
  }
};

struct LossSettings {
  LossOptions options;   // treated as kAuto if they do not apply to the task
  ClassWeights weights;  // of the classes
  Readout readout;       // of the training part
  double smoothing = 0;  // label smoothing
};

// The outputs [n, outputs] of a part with their labels [n], none missing.
struct LabelledOutputs {
  std::vector<double> outputs, label;
  bool calibrated = false;  // the scale of the outputs was learnt from held-out predictions
};

class TaskKind {
 public:
  constexpr TaskKind(Task of, const char* called, Scale on) : task(of), name(called), scale(on) {}
  virtual ~TaskKind() = default;

  const Task task;
  const char* const name;
  const Scale scale;

  // The task for a given number of classes: with two, multi-class becomes binary.
  virtual Task of_classes(std::size_t) const { return task; }
  // True if a column's values are classes, at most max_classes(); else they are numbers.
  virtual bool names_classes() const { return false; }
  virtual std::size_t max_classes() const { return 64; }  // more is an identifier or a measurement
  virtual bool has_threshold() const { return false; }    // see Target
  // A note on the labels that were found. `numeric`: all are numbers.
  virtual std::string note_on_labels(const Target& target, bool numeric,
                                     bool task_was_asked) const {
    (void)target, (void)numeric, (void)task_was_asked;
    return {};
  }
  // True if a target, and its readout, that was read from a file is valid apart from names.
  virtual bool is_sound(const Target& target) const { return target.classes.empty(); }
  virtual bool is_sound_readout(const Target& target, const Readout& readout) const {
    (void)target, (void)readout;
    return true;
  }

  // A label is a class index, a number in the unit of the column, or a survival_label(); NaN: none.
  // It is read from and written to the fields of these columns.
  virtual std::vector<std::string> label_columns() const { return {"label"}; }
  virtual std::vector<std::string> label_fields(const Target& target, double label) const {
    return {label_text(target, label)};
  }
  // NaN unless it is an expected_label().
  virtual double label_from(const Target& target, std::span<const std::string> fields) const = 0;
  virtual std::string expected_label(const Target& target) const = 0;
  virtual std::string label_text(const Target& target, double label) const = 0;  // in messages
  // Appends the label to the labels and numbers that metrics take.
  virtual void add_label(ScoredExams& exams, double label) const = 0;
  // Splits are stratified by classes, by `bins` of numbers, or by the event. A stratum must not be
  // empty unless it is a bin.
  virtual std::string stratum_name(const Target& target, std::size_t stratum,
                                   std::size_t bins) const = 0;
  virtual bool is_class(std::size_t stratum) const = 0;
  // Names under which the exams of each stratum are compared; none: strata are bins.
  virtual std::vector<std::string> group_names(const Target&) const { return {}; }
  // True if no loss on these labels can rank epochs.
  virtual bool is_blind(std::span<const double> label) const {
    (void)label;
    return false;
  }

  // Columns of the head, and of a prediction.
  virtual std::size_t outputs(const Target& target) const = 0;
  virtual std::size_t scores(const Target& target) const = 0;
  // See scores_of() and decide() in target.h.
  virtual std::vector<double> scores_of(const Target& target, const Readout& readout,
                                        std::span<const double> outputs) const = 0;
  virtual std::vector<int> decide(const Target& target, std::span<const double> scores,
                                  double threshold) const {
    (void)threshold;
    return std::vector<int>(scores.size() / this->scores(target), 0);
  }
  // The suffixes after p_ or survival_ in the names of score columns, and the full names.
  virtual std::vector<std::string> score_names(const Target& target) const = 0;
  virtual std::vector<std::string> score_columns(const Target& target) const = 0;

  // What a fit learns from the training labels, from the training outputs, and from the validation
  // outputs. `training` is empty unless a loss is_of_batch().
  virtual void learn_labels(Readout&, const Target&, std::span<const double>) const {}
  virtual void learn_outputs(Readout&, const LabelledOutputs& training,
                             const LabelledOutputs& validation) const {
    (void)training, (void)validation;
  }
  // The threshold chosen on the validation part's scores [n, scores].
  virtual double threshold(std::span<const double> scores, std::span<const double> label) const {
    (void)scores, (void)label;
    return Readout().threshold;
  }

  virtual bool takes_smoothing() const { return false; }  // of labels
  virtual bool takes(LossKind kind) const { return kind == LossKind::kAuto; }
  virtual std::unique_ptr<const RowLoss> loss(const Target& target,
                                              LossSettings settings) const = 0;

  // The (empty) rows to which linear models are fitted exactly. Two classes have one output, the
  // logit of the second.
  virtual RowLabels linear_rows(const Target& target, const Readout& readout) const = 0;
  virtual void add_row(RowLabels& rows, const Readout& readout, double label) const {
    (void)readout;
    rows.value.push_back(label);
  }
  // Why the labels of two exams cannot be mixed (mixup); empty: they can.
  virtual std::string unmixable(const Target&) const { return {}; }

  // The output o [..., 1] to which frames contribute; in the target's unit it is Readout::mean + o
  // · Readout::deviation. It is the probability of `of_class` if explained_class() gives a class
  // for the decision.
  virtual OutputOperations::Value explained(OutputOperations& on, const Target& target,
                                            const Readout& readout, std::size_t of_class,
                                            OutputOperations::Value outputs) const = 0;
  virtual std::optional<std::size_t> explained_class(int decision) const {
    (void)decision;
    return {};
  }
  virtual std::string explained_output(const Target& target, std::size_t of_class) const = 0;

  // The kinds of which a prediction is an example; of each kind the one with the greatest height is
  // shown.
  struct Example {
    int kind = 0;
    bool right = true;
    double height = 0;
  };
  virtual std::vector<Example> examples(double label, std::span<const double> scores,
                                        int decision) const = 0;
  virtual const char* explained_exams() const = 0;  // describes which exams these are
  // Part of the title of such an exam.
  virtual std::string explained_title(const Target& target, double label,
                                      std::span<const double> scores, int decision) const = 0;
};

const TaskKind& kind_of(Task task);
// The task for a column with these distinct values. `numeric`: all are numbers.
Task task_of_values(std::span<const std::string> values, bool numeric);

}  // namespace coldframe::temporal
