// Classes with an order: C − 1 outputs; output k: P(class > k | class > k − 1), as in CORN (Shi,
// Cao and Raschka 2023, "Deep Neural Networks for Rank-Consistent Ordinal Regression Based On
// Conditional Probabilities").
#include "train_temporal/labels/class_kind.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {
namespace {

// P(class = c) from the conditional probabilities of exceeding each class.
std::vector<double> ordinal_probabilities(std::span<const double> outputs, std::size_t classes) {
  std::vector<double> result;
  for (std::size_t row = 0; row < outputs.size(); row += classes - 1) {
    double exceeding = 1;
    for (std::size_t k = 0; k + 1 < classes; ++k) {
      const double next = exceeding * logistic(outputs[row + k]);
      result.push_back(exceeding - next);
      exceeding = next;
    }
    result.push_back(exceeding);
  }
  return result;
}

// Output k learns from the exams whose class is k or more whether it is more.
class Corn : public RowLoss {
 public:
  explicit Corn(ClassWeights weights) : weights_(std::move(weights)) {}

  double weight(double label) const override {
    const auto c = static_cast<std::size_t>(label);
    return weights_[c] * static_cast<double>(std::min(c + 1, weights_.size() - 1));
  }
  double operator()(std::span<const double> z, double of, double total,
                    float* gradient) const override {
    const auto label = static_cast<std::size_t>(of);
    double loss = 0;
    for (std::size_t k = 0; k < z.size(); ++k) {
      const double more = label > k ? 1.0 : 0.0;
      const double asked = label >= k ? weights_[label] : 0.0;
      loss += asked * (softplus(z[k]) - more * z[k]);
      if (gradient != nullptr) {
        gradient[k] = static_cast<float>(asked / total * (1 / (1 + std::exp(-z[k])) - more));
      }
    }
    return loss;
  }

 private:
  ClassWeights weights_;
};

class OrdinalKind : public ClassKind {
 public:
  constexpr OrdinalKind() : ClassKind(Task::kOrdinal, "ordinal", Scale::kOrdinal) {}

  std::string note_on_labels(const Target& target, bool numeric, bool) const override {
    if (numeric) return {};
    return concat("classes of '", target.name, "' from low to high: ", join(target.classes, " < "),
                  " (natural order; rename them if this is another)");
  }
  std::size_t outputs(const Target& target) const override { return target.classes.size() - 1; }
  std::vector<double> scores_of(const Target& target, const Readout&,
                                std::span<const double> outputs) const override {
    return ordinal_probabilities(outputs, target.classes.size());
  }
  using Operations = OutputOperations;
  // The sum of P(class > k) is the expected class.
  Operations::Value explained(Operations& on, const Target& target, const Readout&, std::size_t,
                              Operations::Value outputs) const override {
    return on.sum(on.cumulative_product(on.sigmoid(outputs)),
                  std::vector<double>(target.classes.size() - 1, 1.0));
  }
  // The median: the last class that is exceeded or reached with a probability above one half.
  std::vector<int> decide(const Target& target, std::span<const double> scores,
                          double) const override {
    const std::size_t classes = target.classes.size();
    std::vector<int> decision;
    for (std::size_t row = 0; row < scores.size(); row += classes) {
      double exceeding = 1;
      std::size_t c = 0;
      while (c + 1 < classes && (exceeding -= scores[row + c]) > 0.5) ++c;
      decision.push_back(static_cast<int>(c));
    }
    return decision;
  }
  std::unique_ptr<const RowLoss> loss(const Target&, LossSettings settings) const override {
    return std::make_unique<Corn>(std::move(settings.weights));
  }
  RowLabels linear_rows(const Target& target, const Readout&) const override {
    return {RowLabels::Loss::kLogistic, outputs(target)};
  }
  // Output k asks those above class k − 1 whether they are above k.
  void add_row(RowLabels& rows, const Readout&, double label) const override {
    for (std::size_t k = 0; k < rows.outputs; ++k) {
      const auto rank = static_cast<double>(k);
      rows.value.push_back(label < rank ? std::nan("") : label > rank ? 1 : 0);
    }
  }
  std::string unmixable(const Target& target) const override {
    return concat("between two ranks lie others; leave the option out, or learn it as ",
                  target.name, ":multiclass");
  }
  std::string explained_output(const Target& target, std::size_t) const override {
    return concat("expected class (0 to ", target.classes.size() - 1, ")");
  }
};

}  // namespace

const TaskKind& ordinal_task() {
  static const OrdinalKind kind;
  return kind;
}

}  // namespace coldframe::temporal
