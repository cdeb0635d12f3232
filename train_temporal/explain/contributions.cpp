#include "train_temporal/explain/contributions.h"

#include <algorithm>
#include <cmath>

#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/run/apply/model_features.h"

namespace coldframe::temporal {

namespace {

// outputs: the target's own, [B, outputs]. Returns [B]; a regression's is the standardised
// number, Cox's the output.
torch::Tensor explained_output(const Target& target, const Readout& reading, std::size_t of_class,
                               const torch::Tensor& outputs) {
  switch (target.task) {
    case Task::kBinary:
    case Task::kMulticlass:
      break;
    case Task::kOrdinal:  // Σ P(class > k)
      return outputs.sigmoid().cumprod(1).sum(1);
    case Task::kRegression:
    case Task::kCox:
      return outputs.select(1, 0);
    case Task::kHazards: {  // the risk, see tasks/survival.h
      const auto intervals = static_cast<std::int64_t>(target.intervals);
      const torch::Tensor logits = torch::tensor(reading.hazards).to(outputs);
      const torch::Tensor share = torch::arange(intervals, 0, -1).to(outputs) / intervals;
      return torch::softplus(outputs + logits).mul(share).sum(1);
    }
  }
  const torch::Tensor probability = (outputs / reading.temperature).softmax(1);
  return probability.select(1, static_cast<std::int64_t>(of_class));
}

// Adds a model's share to what is said of the exam.
void add_model(ExplainedExam& exam, TrainedModel& trained, FeatureSource& features, double share) {
  const ModelMetadata& card = trained.card;
  const Target& target = card.targets[exam.target];
  const Readout& reading = card.readings[exam.target];
  const auto first = static_cast<std::int64_t>(first_output(card.targets, exam.target));
  const auto outputs = static_cast<std::int64_t>(target.outputs());
  const auto output = [&](const torch::Tensor& all) {
    return explained_output(target, reading, exam.of_class, all.narrow(1, first, outputs));
  };
  features.plan({{exam.exam}});
  features.next();
  features.evaluate();
  const Contributions one = integrated_gradients(*trained.model, features.window(), card.config,
                                                 card.fit_seed, exam.exam, output);
  const bool number = !target.has_classes();
  const double unit = share * (number ? reading.deviation : 1);
  const double zero = share * (number ? reading.mean : 0);
  Contributions& mean = exam.values;
  mean.frames.resize(one.frames.size());
  for (std::size_t t = 0; t < one.frames.size(); ++t) mean.frames[t] += unit * one.frames[t];
  mean.output += zero + unit * one.output;
  mean.baseline += zero + unit * one.baseline;
  mean.points = std::max(mean.points, one.points);
  exam.largest_gap = std::max(exam.largest_gap, one.gap());
}

}  // namespace

bool can_be_explained(const std::vector<Target>& targets) {
  return !targets.front().per_frame;
}

std::size_t explained_class(const Target& target, int decision) {
  return target.binary() ? 1 : static_cast<std::size_t>(decision);
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

std::string contributions_csv(const cache::CacheReader& cache, const ModelMetadata& card,
                              const std::vector<ExplainedExam>& exams) {
  std::string csv =
      csv_row({"exam", "frame", "time_s", "target", "class", "contribution", "output", "baseline"});
  for (const ExplainedExam& explained : exams) {
    const Target& target = card.targets[explained.target];
    const bool probability = target.scale() == Scale::kNominal;
    const cache::ExamInfo& exam = cache.exams()[explained.exam];
    std::size_t present = 0;
    for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
      const double share = exam.present[frame] ? explained.values.frames[present++] : 0.0;
      const double time = exam.time_s[frame];
      csv +=
          csv_row({exam.id, std::to_string(frame), std::isfinite(time) ? exact(time) : "",
                   target.name, probability ? target.classes[explained.of_class] : "", exact(share),
                   exact(explained.values.output), exact(explained.values.baseline)});
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
