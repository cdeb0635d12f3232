// Classes without an order: an output for each → softmax.
#include "train_temporal/evaluate/calibration.h"
#include "train_temporal/labels/class_kind.h"

namespace coldframe::temporal {
namespace {

// Cross-entropy, whose label smoothing turns from 1_c into (1 − ε) 1_c + ε / C; or with the factor
// (1 − p)^γ in the focal form. With p that of the true class, the derivative by logit c of the
// latter is (γ (1 − p)^(γ−1) p log p − (1 − p)^γ) (1_c − p_c).
class CrossEntropy : public RowLoss {
 public:
  explicit CrossEntropy(LossSettings settings)
      : is_focal_(settings.options.kind == LossKind::kFocal),
        parameter_(settings.options.parameter),
        smoothing_(settings.smoothing),
        weights_(std::move(settings.weights)) {}

  double weight(double label) const override { return weights_[static_cast<std::size_t>(label)]; }
  bool is_cross_entropy() const override { return !is_focal_ && smoothing_ == 0; }
  double operator()(std::span<const double> z, double of, double total,
                    float* gradient) const override {
    const auto label = static_cast<std::size_t>(of);
    const double highest = *std::max_element(z.begin(), z.end());
    double exponentials = 0;
    for (double logit : z) exponentials += std::exp(logit - highest);
    const double log_total = highest + std::log(exponentials);
    const double cross_entropy = log_total - z[label];
    double factor = 1, slope = 1;
    if (is_focal_) {
      double rest = 0;  // 1 − p, which is exact also where p rounds to 1
      for (std::size_t c = 0; c < z.size(); ++c) {
        if (c != label) rest += std::exp(z[c] - log_total);
      }
      factor = std::pow(rest, parameter_);
      slope = factor;
      if (rest > 0 && parameter_ > 0) {
        slope +=
            parameter_ * std::pow(rest, parameter_ - 1) * std::exp(-cross_entropy) * cross_entropy;
      }
    }
    const double spread = is_focal_ ? 0 : smoothing_;
    const double to_each = spread / static_cast<double>(z.size());
    for (std::size_t c = 0; gradient != nullptr && c < z.size(); ++c) {
      const double wanted = to_each + (c == label ? 1 - spread : 0.0);
      gradient[c] = static_cast<float>(weights_[label] / total * slope *
                                       (std::exp(z[c] - log_total) - wanted));
    }
    double loss = (1 - spread) * factor * cross_entropy;
    for (std::size_t c = 0; spread > 0 && c < z.size(); ++c) loss += to_each * (log_total - z[c]);
    return weights_[label] * loss;
  }

 private:
  bool is_focal_;
  double parameter_, smoothing_;
  ClassWeights weights_;
};

class NominalKind : public ClassKind {
 public:
  constexpr NominalKind(Task of, const char* called) : ClassKind(of, called, Scale::kNominal) {}

  Task of_classes(std::size_t count) const override {
    return task == Task::kMulticlass && count == 2 ? Task::kBinary : task;
  }
  // Whole numbers that follow each other are grades as often as names.
  std::string note_on_labels(const Target& target, bool numeric,
                             bool task_was_asked) const override {
    if (task_was_asked || !numeric) return {};
    return concat("'", target.name, "' holds the numbers ", target.classes.front(), " to ",
                  target.classes.back(),
                  ", learnt as classes without an order; if they are grades, --target ",
                  shell_word(target.name + ":ordinal"), " learns them as such");
  }
  std::size_t outputs(const Target& target) const override { return target.classes.size(); }
  std::vector<double> scores_of(const Target& target, const Readout& readout,
                                std::span<const double> outputs) const override {
    return softmax(outputs, target.classes.size(), readout.temperature);
  }
  using Operations = OutputOperations;
  Operations::Value explained(Operations& on, const Target&, const Readout& readout,
                              std::size_t of_class, Operations::Value outputs) const override {
    return on.column(on.softmax(on.divided(outputs, readout.temperature)), of_class);
  }
  std::optional<std::size_t> explained_class(int decision) const override {
    return static_cast<std::size_t>(decision);
  }
  std::vector<int> decide(const Target& target, std::span<const double> scores,
                          double threshold) const override {
    return temporal::decide(scores, target.classes.size(), threshold);
  }
  void learn_outputs(Readout& readout, const LabelledOutputs&,
                     const LabelledOutputs& validation) const override {
    if (validation.calibrated) return;
    const std::vector<int> label(validation.label.begin(), validation.label.end());
    const std::size_t outputs = label.empty() ? 2 : validation.outputs.size() / label.size();
    readout.temperature = fit_temperature(validation.outputs, outputs, label);
  }
  bool takes_smoothing() const override { return true; }
  bool takes(LossKind kind) const override {
    return kind == LossKind::kAuto || kind == LossKind::kFocal;
  }
  std::unique_ptr<const RowLoss> loss(const Target&, LossSettings settings) const override {
    return std::make_unique<CrossEntropy>(std::move(settings));
  }
  RowLabels linear_rows(const Target& target, const Readout&) const override {
    return {RowLabels::Loss::kSoftmax, target.classes.size()};
  }
};

class BinaryKind : public NominalKind {
 public:
  constexpr BinaryKind() : NominalKind(Task::kBinary, "binary") {}

  std::size_t max_classes() const override { return 2; }
  bool has_threshold() const override { return true; }
  bool is_sound(const Target& target) const override { return target.classes.size() == 2; }
  std::string note_on_labels(const Target&, bool, bool) const override { return {}; }
  std::optional<std::size_t> explained_class(int) const override { return 1; }
  RowLabels linear_rows(const Target&, const Readout&) const override {
    return {RowLabels::Loss::kLogistic, 1};
  }
  double threshold(std::span<const double> scores, std::span<const double> label) const override {
    return youden_threshold(columns(scores, 2, 1, 1), std::vector<int>(label.begin(), label.end()))
        .value;
  }
};

}  // namespace

const TaskKind& binary_task() {
  static const BinaryKind kind;
  return kind;
}

const TaskKind& multiclass_task() {
  static const NominalKind kind(Task::kMulticlass, "multiclass");
  return kind;
}

}  // namespace coldframe::temporal
