// The loss of one target and its gradient at the outputs of the head, in double precision, written
// out: the same code serves the fused kernels and the models that LibTorch differentiates.
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
  kAuto,   // cross-entropy, CORN's loss, the squared error, or a likelihood of times, by the task
  kFocal,  // classes: −(1 − p)^γ log p (Lin et al. 2017)
  kMse,    // regression: e², of standardised numbers
  kHuber,  // regression: e² / 2 up to |e| = δ, from there on δ (|e| − δ / 2) (Huber 1964)
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

// An exam of class c counts this much in the loss, [C].
using ClassWeights = std::vector<double>;
ClassWeights equal_weights(std::size_t classes);
// N / (C · N_c) with the exams of each of the C classes that have any: each class counts the same
// as a whole. 1 for a class without exams, of which only a validation part can have some.
ClassWeights balanced_weights(std::span<const std::size_t> count);

class RowLoss;  // task_kind.h

// Of rows that are each other's: the loss of each, [n], and the gradient of their sum at their one
// output, [n].
struct BatchLoss {
  std::vector<double> loss, gradient;
};

class TargetLoss {
 public:
  // `weights`: of the classes; numbers and times: none. Where `options` do not apply to the task,
  // the loss is the one of kAuto. `smoothing`: where the loss is the cross-entropy, so much of a
  // label is shared by all classes alike (Szegedy et al. 2016).
  TargetLoss(const Target& target, const LossOptions& options, ClassWeights weights,
             const Readout& readout, double smoothing = 0);

  std::size_t outputs() const { return outputs_; }
  const ClassWeights& weights() const { return weights_; }
  // Cross-entropy without more: LibTorch has it, too.
  bool is_cross_entropy() const;

  // True for Cox's loss, which is one of all rows of a batch that have a label.
  bool is_of_batch() const;
  BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const;

  // `value`: the number of the class, the number in the unit of the column, or a survival_label();
  // NaN: no label.
  // A row of this value adds so much to the divisor of a mean; 0 without a label. Cox: 1 for an
  // event, 0 when censored.
  double weight(double value) const;
  // The weighted loss of outputs z [outputs]; `gradient`, unless null, receives that of the loss
  // divided by `total`. Nothing but zeros without a label.
  double operator()(std::span<const double> z, double value, double total, float* gradient) const;

 private:
  std::size_t outputs_;
  ClassWeights weights_;
  std::shared_ptr<const RowLoss> of_row_;
};

// The arithmetic by which a task explains a model's outputs: LibTorch computes it with its
// gradients, which tasks know nothing of.

class OutputOperations {
 public:
  virtual ~OutputOperations() = default;

  enum class Value : std::size_t {};  // a table [..., C], by its number

  virtual Value divided(Value x, double divisor) = 0;
  virtual Value softmax(Value x) = 0;
  virtual Value sigmoid(Value x) = 0;
  virtual Value cumulative_product(Value x) = 0;  // over the columns
  // [..., 1]: the sum of the columns, each by its weight [C].
  virtual Value sum(Value x, const std::vector<double>& weights) = 0;
  virtual Value column(Value x, std::size_t number) = 0;  // [..., 1]
};

// An interpreter keeps what its values stand for.
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

// A linear model is fitted to these: the labels of rows, and the loss of their outputs.

struct RowLabels {
  enum class Loss {
    kLogistic,  // each output by itself: log(1 + exp(z)) − y z
    kSoftmax,   // cross-entropy of the classes
    kSquares,   // (z − y)² / 2
    kCox,       // the negative logarithm of Cox's partial likelihood, with Efron's ties
  };
  Loss loss = Loss::kLogistic;
  std::size_t outputs = 1;  // C
  // [n, C] of kLogistic (0 or 1) and kSquares, NaN: no label, and the row tells that output
  // nothing; else [n]: the class, or a survival_label(), which every row has.
  std::vector<double> value = {};

  std::size_t width() const {  // labels of a row
    return loss == Loss::kLogistic || loss == Loss::kSquares ? outputs : 1;
  }
  std::size_t rows() const { return value.size() / width(); }
  bool of_classes() const {  // each row is of one class, which `value` numbers: discriminants fit
    return loss == Loss::kSoftmax || (loss == Loss::kLogistic && outputs == 1);
  }
  RowLabels at(const std::vector<std::size_t>& rows) const;
  // About the second derivative of a row's loss, on average, by which steps are scaled.
  double curvature() const;
};

// The sum of the losses of outputs z [n, C], and its gradient [n, C].
double loss_of(const RowLabels& labels, std::span<const double> z, std::span<double> gradient);

// The logistic function and its integral, for any size of number.

inline double logistic(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// log(1 + exp(x))
inline double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// A task: which labels it reads, what a model's outputs mean, how they are learnt, and how a table
// and a report show them. Each is one object without state; what belongs to one target is in
// Target.

// The loss of one row that has a label, and its gradient.
class RowLoss {
 public:
  virtual ~RowLoss() = default;
  // Adds so much to the divisor of a mean.
  virtual double weight(double label) const = 0;
  // Of outputs z [outputs]; `gradient`, unless null, receives that of the loss divided by `total`.
  virtual double operator()(std::span<const double> z, double label, double total,
                            float* gradient) const = 0;
  // Cross-entropy without more: LibTorch has it, too.
  virtual bool is_cross_entropy() const { return false; }
  // One of all rows of a batch, as Cox's is: a row alone has none.
  virtual bool is_of_batch() const { return false; }
  virtual BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const {
    (void)z, (void)label;
    return {};
  }
};

struct LossSettings {
  LossOptions options;   // of kAuto where they do not apply to the task
  ClassWeights weights;  // of the classes
  Readout readout;       // of the training part
  double smoothing = 0;  // label smoothing
};

// A part's outputs [n, outputs] with their labels [n], none missing.
struct LabelledOutputs {
  std::vector<double> outputs, label;
  bool calibrated = false;  // the scale of these outputs was learnt from held-out predictions
};

class TaskKind {
 public:
  constexpr TaskKind(Task of, const char* called, Scale on) : task(of), name(called), scale(on) {}
  virtual ~TaskKind() = default;

  const Task task;
  const char* const name;
  const Scale scale;

  // The task with so many classes: with two classes, multi-class becomes binary.
  virtual Task of_classes(std::size_t) const { return task; }
  // A column's values are classes, and at most so many; else numbers.
  virtual bool names_classes() const { return false; }
  virtual std::size_t max_classes() const { return 64; }  // more is an identifier or a measurement
  virtual bool has_threshold() const { return false; }    // see Target
  // What there is to say of the labels that were found; `numeric`: all are numbers.
  virtual std::string note_on_labels(const Target& target, bool numeric,
                                     bool task_was_asked) const {
    (void)target, (void)numeric, (void)task_was_asked;
    return {};
  }
  // True for what a file can say of a target, and of how it is read, besides the names of things.
  virtual bool is_sound(const Target& target) const { return target.classes.empty(); }
  virtual bool is_sound_readout(const Target& target, const Readout& readout) const {
    (void)target, (void)readout;
    return true;
  }

  // A label is the number of its class, a number in the unit of the column, or a survival_label();
  // NaN: none. It is told from and becomes the fields of these columns.
  virtual std::vector<std::string> label_columns() const { return {"label"}; }
  virtual std::vector<std::string> label_fields(const Target& target, double label) const {
    return {label_text(target, label)};
  }
  // NaN where it is none of expected_label().
  virtual double label_from(const Target& target, std::span<const std::string> fields) const = 0;
  virtual std::string expected_label(const Target& target) const = 0;
  virtual std::string label_text(const Target& target, double label) const = 0;  // in messages
  // Adds it to the labels, and numbers, that metrics take.
  virtual void add_label(ScoredExams& exams, double label) const = 0;
  // Splits are stratified by classes, by `bins` of numbers, or by the event. An empty stratum
  // matters unless it is a bin.
  virtual std::string stratum_name(const Target& target, std::size_t stratum,
                                   std::size_t bins) const = 0;
  virtual bool is_class(std::size_t stratum) const = 0;
  // Exams of each stratum are compared under these names; none: strata are bins.
  virtual std::vector<std::string> group_names(const Target&) const { return {}; }
  // True where no loss tells epochs apart by these labels.
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
  // What is behind p_ or survival_ in the columns of scores, and these columns.
  virtual std::vector<std::string> score_names(const Target& target) const = 0;
  virtual std::vector<std::string> score_columns(const Target& target) const = 0;

  // What a fit learns of the training part's labels, of its outputs, and of those of the validation
  // part. `training` has none unless a loss is_of_batch().
  virtual void learn_labels(Readout&, const Target&, std::span<const double>) const {}
  virtual void learn_outputs(Readout&, const LabelledOutputs& training,
                             const LabelledOutputs& validation) const {
    (void)training, (void)validation;
  }
  // The threshold that the validation part's scores [n, scores] choose.
  virtual double threshold(std::span<const double> scores, std::span<const double> label) const {
    (void)scores, (void)label;
    return Readout().threshold;
  }

  virtual bool takes_smoothing() const { return false; }  // of labels
  virtual bool takes(LossKind kind) const { return kind == LossKind::kAuto; }
  virtual std::unique_ptr<const RowLoss> loss(const Target& target,
                                              LossSettings settings) const = 0;

  // Linear models are fitted exactly to rows like these; of two classes they have one output, the
  // logit of the second.
  virtual RowLabels linear_rows(const Target& target, const Readout& readout) const = 0;
  virtual void add_row(RowLabels& rows, const Readout& readout, double label) const {
    (void)readout;
    rows.value.push_back(label);
  }
  // Says why labels of two exams cannot be mixed; empty: they can.
  virtual std::string unmixable(const Target&) const { return {}; }

  // Frames are explained by what they add to this output, [..., 1]: Readout::mean and as many
  // deviations. It is the probability of `of_class`, where explained_class() has one for the
  // decision.
  virtual OutputOperations::Value explained(OutputOperations& on, const Target& target,
                                            const Readout& readout, std::size_t of_class,
                                            OutputOperations::Value outputs) const = 0;
  virtual std::optional<std::size_t> explained_class(int decision) const {
    (void)decision;
    return {};
  }
  virtual std::string explained_output(const Target& target, std::size_t of_class) const = 0;

  // A prediction is an example of each of these kinds; that with the greatest height is shown.
  struct Example {
    int kind = 0;
    bool right = true;
    double height = 0;
  };
  virtual std::vector<Example> examples(double label, std::span<const double> scores,
                                        int decision) const = 0;
  virtual const char* explained_exams() const = 0;  // which these are
  // In the title of one of them.
  virtual std::string explained_title(const Target& target, double label,
                                      std::span<const double> scores, int decision) const = 0;
};

const TaskKind& kind_of(Task task);
// The task of a column with these different values; `numeric`: all are numbers.
Task task_of_values(std::span<const std::string> values, bool numeric);

}  // namespace coldframe::temporal
