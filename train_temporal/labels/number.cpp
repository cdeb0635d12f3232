// Numbers: one output, standardised with the training part's statistics.
#include <cmath>

#include "common/text/text.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {
namespace {

class NumberLoss : public RowLoss {
 public:
  explicit NumberLoss(const LossSettings& settings)
      : is_huber_(settings.options.kind == LossKind::kHuber),
        parameter_(settings.options.parameter),
        readout_(settings.readout) {}

  double weight(double) const override { return 1; }
  double operator()(std::span<const double> z, double label, double total,
                    float* gradient) const override {
    const double error = z[0] - (label - readout_.mean) / readout_.deviation;
    const double size = std::abs(error);
    const bool far = is_huber_ && size > parameter_;
    const double scale = is_huber_ ? 0.5 : 1.0;
    if (gradient != nullptr) {
      const double slope = far ? std::copysign(parameter_, error) : 2 * scale * error;
      *gradient = static_cast<float>(slope / total);
    }
    return far ? parameter_ * (size - 0.5 * parameter_) : scale * error * error;
  }

 private:
  bool is_huber_;
  double parameter_;
  Readout readout_;
};

class NumberKind : public TaskKind {
 public:
  constexpr NumberKind() : TaskKind(Task::kRegression, "regression", Scale::kNumber) {}

  double label_from(const Target&, std::span<const std::string> fields) const override {
    double number = 0;
    return parse_double(fields[0], number) ? number : std::nan("");
  }
  std::string expected_label(const Target&) const override { return "a number"; }
  std::string label_text(const Target&, double label) const override {
    return std::isnan(label) ? "" : exact(label);
  }
  void add_label(ScoredExams& exams, double label) const override {
    exams.label.push_back(0);
    exams.number.push_back(label);
  }
  std::string stratum_name(const Target&, std::size_t stratum, std::size_t bins) const override {
    return concat("bin ", stratum, " of ", bins);
  }
  bool is_class(std::size_t) const override { return false; }
  std::size_t outputs(const Target&) const override { return 1; }
  std::size_t scores(const Target&) const override { return 1; }
  std::vector<double> scores_of(const Target&, const Readout& readout,
                                std::span<const double> outputs) const override {
    std::vector<double> numbers(outputs.begin(), outputs.end());
    for (double& number : numbers) number = readout.mean + readout.deviation * number;
    return numbers;
  }
  OutputOperations::Value explained(OutputOperations&, const Target&, const Readout&, std::size_t,
                                    OutputOperations::Value outputs) const override {
    return outputs;
  }
  std::vector<std::string> score_names(const Target&) const override { return {""}; }
  std::vector<std::string> score_columns(const Target&) const override { return {"predicted"}; }
  void learn_labels(Readout& readout, const Target&,
                    std::span<const double> numbers) const override {
    if (numbers.empty()) return;
    double sum = 0, squares = 0;
    for (double number : numbers) sum += number;
    readout.mean = sum / static_cast<double>(numbers.size());
    for (double number : numbers) squares += (number - readout.mean) * (number - readout.mean);
    const double deviation = std::sqrt(squares / static_cast<double>(numbers.size()));
    if (deviation > 0) readout.deviation = deviation;
  }
  bool takes(LossKind kind) const override {
    return kind == LossKind::kAuto || kind == LossKind::kMse || kind == LossKind::kHuber;
  }
  std::unique_ptr<const RowLoss> loss(const Target&, LossSettings settings) const override {
    return std::make_unique<NumberLoss>(settings);
  }
  RowLabels linear_rows(const Target&, const Readout&) const override {
    return {RowLabels::Loss::kSquares, 1};
  }
  void add_row(RowLabels& rows, const Readout& readout, double label) const override {
    rows.value.push_back((label - readout.mean) / readout.deviation);
  }
  std::string explained_output(const Target& target, std::size_t) const override {
    return target.name;
  }
  std::vector<Example> examples(double label, std::span<const double> scores, int) const override {
    const double predicted = scores.front(), error = predicted - label;
    return {{0, true, predicted}, {1, true, -predicted}, {2, true, error}, {3, true, -error}};
  }
  const char* explained_exams() const override {
    return "The highest and the lowest prediction, and the largest errors either way";
  }
  std::string explained_title(const Target&, double label, std::span<const double> scores,
                              int) const override {
    return concat(label, " predicted as ", scores[0]);
  }
};

}  // namespace

const TaskKind& regression_task() {
  static const NumberKind kind;
  return kind;
}

}  // namespace coldframe::temporal
