#include "train_temporal/explain/contributions.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {

namespace {

// A task's arithmetic by LibTorch, which has its gradients.
class TorchOperations : public KeepingOperations<torch::Tensor> {
  static torch::Tensor like(const torch::Tensor& x, const std::vector<double>& values) {
    return torch::tensor(values).to(x);
  }

 public:
  Value divided(Value x, double divisor) override { return keep(at(x) / divisor); }
  Value softmax(Value x) override { return keep(at(x).softmax(1)); }
  Value sigmoid(Value x) override { return keep(at(x).sigmoid()); }
  Value cumulative_product(Value x) override { return keep(at(x).cumprod(1)); }
  Value sum(Value x, const std::vector<double>& weights) override {
    return keep((at(x) * like(at(x), weights)).sum(1, true));
  }
  Value column(Value x, std::size_t number) override {
    return keep(at(x).narrow(1, std::int64_t(number), 1));
  }
};

// Adds a model's share to what is said of the exam.
void add_model(ExplainedExam& exam, TrainedModel& trained, FeatureSource& features, double share) {
  const ModelMetadata& card = trained.card;
  const Target& target = card.targets[exam.target];
  const Readout& readout = card.readouts[exam.target];
  const auto first = static_cast<std::int64_t>(first_output(card.targets, exam.target));
  const auto outputs = static_cast<std::int64_t>(target.outputs());
  const auto output = [&](const torch::Tensor& all) {
    TorchOperations on;
    const auto own = on.keep(all.narrow(1, first, outputs));
    return on.at(target.kind().explained(on, target, readout, exam.of_class.value_or(0), own))
        .select(1, 0);
  };
  features.plan({{exam.exam}});
  features.next();
  features.evaluate();
  const Contributions one = integrated_gradients(*trained.model, features.window(), card.config,
                                                 card.fit_seed, exam.exam, output);
  const double unit = share * readout.deviation, zero = share * readout.mean;
  Contributions& mean = exam.values;
  mean.frames.resize(one.frames.size());
  for (std::size_t t = 0; t < one.frames.size(); ++t) mean.frames[t] += unit * one.frames[t];
  mean.output += zero + unit * one.output;
  mean.baseline += zero + unit * one.baseline;
  mean.points = std::max(mean.points, one.points);
  exam.largest_gap = std::max(exam.largest_gap, one.gap());
  exam.unit += unit;
  if (exam.keep_gradients) exam.gradients.push_back(unit * one.gradient);
}

}  // namespace

bool can_be_explained(const std::vector<Target>& targets) {
  return !targets.front().per_frame;
}

void require_explained(const std::vector<Target>& targets, std::string_view option) {
  if (can_be_explained(targets)) return;
  throw ConfigError(concat(option, " tells what frames add to the one output of an exam, but '",
                           targets.front().name, "' has a value per frame; leave it out"));
}

void explain_exams(std::span<TrainedModel> models, const Dataset& dataset,
                   std::span<ExplainedExam> exams, const std::function<void()>& explained) {
  const double share = 1.0 / static_cast<double>(models.size());
  for (TrainedModel& trained : models) {
    const auto features = features_for(trained, dataset);
    for (ExplainedExam& exam : exams) {
      add_model(exam, trained, *features, share);
      explained();
    }
  }
}

std::string contributions_csv(const SequenceReader& cache, const ModelMetadata& card,
                              const std::vector<ExplainedExam>& exams) {
  std::string csv =
      csv_row({"exam", "frame", "time_s", "target", "class", "contribution", "output", "baseline"});
  for (const ExplainedExam& explained : exams) {
    const Target& target = card.targets[explained.target];
    const cache::ExamInfo& exam = cache.exams()[explained.exam];
    std::size_t present = 0;
    for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
      const double share = exam.present[frame] ? explained.values.frames[present++] : 0.0;
      const double time = exam.time_s[frame];
      csv +=
          csv_row({exam.id, std::to_string(frame), std::isfinite(time) ? exact(time) : "",
                   target.name, explained.of_class ? target.classes[*explained.of_class] : "",
                   exact(share), exact(explained.values.output), exact(explained.values.baseline)});
    }
  }
  return csv;
}

double largest_gap(const std::vector<ExplainedExam>& exams) {
  double gap = 0;
  for (const ExplainedExam& exam : exams) gap = std::max(gap, exam.largest_gap);
  return gap;
}

std::string completeness_text(const std::vector<ExplainedExam>& exams) {
  const auto beyond =
      static_cast<std::size_t>(std::count_if(exams.begin(), exams.end(), [](const auto& exam) {
        return exam.largest_gap > kCompleteness;
      }));
  std::string text = concat("contributions add up to what they explain within ",
                            exact(std::round(largest_gap(exams) * 1e7) / 1e7), " (tolerance ",
                            exact(kCompleteness));
  if (beyond > 0) text += concat(", missed in ", plural(beyond, "exam"));
  return text + ")";
}

}  // namespace coldframe::temporal
