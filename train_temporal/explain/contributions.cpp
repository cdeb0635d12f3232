#include "train_temporal/explain/contributions.h"

#include <algorithm>
#include <cmath>

#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

// outputs: the target's own, [B, outputs]. Returns [B]; a regression's is the standardised number.
torch::Tensor explained_output(const Target& target, const Reading& reading, std::size_t of_class,
                               const torch::Tensor& outputs) {
  switch (target.task) {
    case Task::kBinary:
    case Task::kMulticlass:
      break;
    case Task::kOrdinal:  // Σ P(class > k)
      return outputs.sigmoid().cumprod(1).sum(1);
    case Task::kRegression:
      return outputs.select(1, 0);
  }
  const torch::Tensor probability = (outputs / reading.temperature).softmax(1);
  return probability.select(1, static_cast<std::int64_t>(of_class));
}

}  // namespace

bool can_be_explained(const std::vector<Target>& targets) {
  return !targets.front().per_frame;
}

std::size_t explained_class(const Target& target, int decision) {
  return target.binary() ? 1 : static_cast<std::size_t>(decision);
}

ExplainedExam explain_exam(std::span<TrainedModel> models, std::size_t exam, std::size_t target,
                           std::size_t of_class) {
  ExplainedExam result{exam, target, of_class, {}, 0};
  const double share = 1.0 / static_cast<double>(models.size());
  for (TrainedModel& trained : models) {
    const ModelCard& card = trained.card;
    const Target& explained = card.targets[target];
    const Reading& reading = card.readings[target];
    const auto first = static_cast<std::int64_t>(first_output(card.targets, target));
    const auto outputs = static_cast<std::int64_t>(explained.outputs());
    const auto output = [&](const torch::Tensor& all) {
      return explained_output(explained, reading, of_class, all.narrow(1, first, outputs));
    };
    trained.features->plan({{exam}});
    trained.features->next();
    trained.features->evaluate();
    const Contributions one = integrated_gradients(*trained.model, trained.features->window(),
                                                   card.config, card.fit_seed, exam, output);
    const bool number = !explained.has_classes();
    const double unit = share * (number ? reading.deviation : 1);
    const double zero = share * (number ? reading.mean : 0);
    Contributions& mean = result.values;
    mean.frames.resize(one.frames.size());
    for (std::size_t t = 0; t < one.frames.size(); ++t) mean.frames[t] += unit * one.frames[t];
    mean.output += zero + unit * one.output;
    mean.baseline += zero + unit * one.baseline;
    mean.points = std::max(mean.points, one.points);
    result.largest_gap = std::max(result.largest_gap, one.gap());
  }
  return result;
}

std::string contributions_csv(const cache::CacheReader& cache, const ModelCard& card,
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
