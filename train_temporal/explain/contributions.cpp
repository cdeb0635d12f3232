#include "train_temporal/explain/contributions.h"

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/models/summary_model.h"
#include "train_temporal/run/ensemble.h"

namespace coldframe::temporal {

namespace {

constexpr std::int64_t kMaxValues = 1 << 19;  // features of one batch: 2 MiB

// The path from the baseline (0) to the exam (1); a batch holds one copy of the exam per evaluated
// point.
struct Path {
  SequenceModel& model;
  const Dataset& dataset;
  const ModelConfig& config;
  BatchItem item;
  const ExplainedOutput& output;

  std::int64_t frames() const { return static_cast<std::int64_t>(item.frames.features.size()); }
  PackedBatch batch(std::size_t points) const {
    return make_batch(dataset, std::vector<BatchItem>(points, item));
  }
};

// The mean feature in every frame, in which streams are there or not as in the exam's.
torch::Tensor baseline(const Path& path, const torch::Tensor& mean, const torch::Tensor& features) {
  const std::int64_t streams = std::ssize(path.config.streams);
  if (streams == 0) return mean;
  torch::Tensor base = mean.repeat({features.size(0), 1});
  const std::int64_t from = features.size(1) - streams;
  base.narrow(1, from, streams).copy_(features.narrow(1, from, streams));
  return base;
}

torch::Tensor feature_mean(const Path& path) {  // [D]
  return path.model.named_buffers()["feature_mean"].narrow(0, 0, path.config.features());
}

// Over some of the points, frame by frame.
struct Sums {
  std::vector<double> frames;  // Σ weight · gradient · (exam − baseline)
  torch::Tensor gradient;      // Σ weight · gradient, [T, D]
};

// With `ends`, also the output at the baseline and at the exam.
Sums weighted_gradients(const Path& path, std::vector<double> points, std::vector<double> weights,
                        std::vector<double>* ends) {
  if (ends != nullptr) {
    points.insert(points.end(), {0.0, 1.0});
    weights.insert(weights.end(), {0.0, 0.0});
  }
  const PackedBatch batch = path.batch(points.size());
  const torch::Tensor features = gather_features(path.dataset, batch);  // [T · S, D] step by step
  const torch::Tensor base = baseline(path, feature_mean(path), features);
  const torch::Tensor difference = (features - base).nan_to_num(0.0);  // missing: as the mean
  const auto by_row = [&](const std::vector<double>& values) {         // [T · S, 1]
    const torch::Tensor row = torch::tensor(values, torch::kFloat32).to(features.device());
    return row.repeat({path.frames()}).unsqueeze(1);
  };
  const torch::Tensor input = (base + by_row(points) * difference).detach().requires_grad_();
  const torch::Tensor output = path.output(path.model.outputs(input, batch, Dropout()));  // [S]
  const torch::Tensor gradient = torch::autograd::grad({output.sum()}, {input}).front();
  const torch::Tensor rows = (gradient * difference).sum(1, true) * by_row(weights);
  if (ends != nullptr) *ends = doubles(output.narrow(0, output.size(0) - 2, 2));
  const auto copies = static_cast<std::int64_t>(points.size());
  return {doubles(rows.to(torch::kFloat64).view({path.frames(), copies}).sum(1)),
          (gradient * by_row(weights)).view({path.frames(), copies, -1}).sum(1)};
}

// Integrates over the frames that the model looks at, in its order; a batch holds as many points as
// memory wants.
Contributions integrate(const Path& path, std::size_t points) {
  const Quadrature quadrature = gauss_legendre(points);
  const std::int64_t each = std::max<std::int64_t>(path.frames() * path.config.dimension, 1);
  const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(kMaxValues / each, 1));
  Contributions result{std::vector<double>(path.item.frames.features.size()), 0, 0, points};
  for (std::size_t start = 0; start < points; start += at_once) {
    const auto part = [&](const std::vector<double>& values) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(start);
      return std::vector(from,
                         from + static_cast<std::ptrdiff_t>(std::min(at_once, points - start)));
    };
    std::vector<double> ends;
    const Sums sums = weighted_gradients(path, part(quadrature.points), part(quadrature.weights),
                                         start == 0 ? &ends : nullptr);
    for (std::size_t t = 0; t < sums.frames.size(); ++t) result.frames[t] += sums.frames[t];
    result.gradient = start == 0 ? sums.gradient : result.gradient + sums.gradient;
    if (start == 0) std::tie(result.baseline, result.output) = std::tie(ends[0], ends[1]);
  }
  return result;
}

// Calls `at(points)` with twice as many points until it is complete.
Contributions completed(const std::function<Contributions(std::size_t points)>& at) {
  Contributions result = at(kMinPoints);
  while (result.gap() > kCompleteness && result.points < kMaxPoints) result = at(2 * result.points);
  return result;
}

// From `base` to `base` + `step`, logits [C] float64: the mean gradient of the output, [C].
torch::Tensor mean_gradient(const ExplainedOutput& output, const torch::Tensor& base,
                            const torch::Tensor& step, std::size_t points) {
  const Quadrature quadrature = gauss_legendre(points);
  const auto column = [&](const std::vector<double>& values) {  // [points, 1]
    return torch::tensor(values, torch::kFloat64).to(base.device()).unsqueeze(1);
  };
  const torch::Tensor logits =
      (base + column(quadrature.points) * step).detach().requires_grad_();  // [points, C]
  const torch::Tensor gradient = torch::autograd::grad({output(logits).sum()}, {logits}).front();
  return (gradient * column(quadrature.weights)).sum(0);
}

// What an output of a linear model of summaries is made of: frame by frame, each [T, D].
struct SummaryParts {
  torch::Tensor frames;    // add up over T to the standardised summaries
  torch::Tensor gradient;  // of the standardised summaries
};

// z: [D], standardised summaries of `features`, each of one feature. A summary is homogeneous in
// the frames' differences from the mean frame, so that its gradient makes up what lies between an
// exam of mean frames and this one. From there to the mean summary, frames share by |gradient|, or
// evenly where it is 0 (a single frame has no change).
SummaryParts parts_of_summary(const torch::Tensor& z, const torch::Tensor& features,
                              const torch::Tensor& difference) {
  const torch::Tensor gradient =
      torch::autograd::grad({z.sum()}, {features}, {}, /*retain_graph=*/true)
          .front()
          .nan_to_num(0.0);
  const torch::Tensor along = gradient * difference;
  const torch::Tensor sizes = gradient.abs(), all = sizes.sum(0, true);
  const torch::Tensor known = features.isnan().logical_not().to(sizes.scalar_type());
  const torch::Tensor even = known / known.sum(0, true).clamp_min(1);
  const torch::Tensor share = torch::where(all > 0, sizes / all, even);
  return {(along + (z - along.sum(0)) * share).detach(), gradient};
}

// The path of summaries is straight, and so is that of logits: from those of the mean summary.
Contributions integrate_summaries(const Path& path, SummaryModel& model) {
  const PackedBatch batch = path.batch(1);
  const torch::Tensor features =
      gather_features(path.dataset, batch).detach().requires_grad_();  // [T, D]
  const torch::Tensor difference =
      (features - baseline(path, feature_mean(path), features)).nan_to_num(0.0).detach();
  const torch::Tensor seen = with_changes(features, batch, model.inputs);
  std::vector<torch::Tensor> z = model.standardised(seen, batch);  // [1, parts · D] each
  const torch::Tensor weights = model.head->weight.detach();       // [C, parts · D]
  const torch::Tensor logits = model.outputs(features, batch, Dropout()).detach().squeeze(0);
  const torch::Tensor step = (torch::cat(z).detach() * weights).to(torch::kFloat64).sum(1);  // [C]
  const torch::Tensor base = logits.to(torch::kFloat64) - step;
  const std::vector<double> ends = doubles(path.output(torch::stack({base, base + step})).detach());
  torch::Tensor slopes;  // [C]
  const auto whole = [&](std::size_t points) {
    slopes = mean_gradient(path.output, base, step, points);
    return Contributions{{(slopes * step).sum().item<double>()}, ends[1], ends[0], points};
  };
  Contributions result = completed(whole);
  torch::Tensor frames = torch::zeros({path.frames()}, slopes.options());
  result.gradient = torch::zeros_like(features);
  for (std::size_t c = 0; c < z.size(); ++c) {
    const auto row = static_cast<std::int64_t>(c);
    const torch::Tensor scale = slopes[row].to(weights.scalar_type()) * weights[row];
    for (std::int64_t from = 0; from < scale.size(0); from += features.size(1)) {
      const auto of_part = [&](const torch::Tensor& all) {
        return all.narrow(0, from, features.size(1));
      };
      const SummaryParts parts = parts_of_summary(of_part(z[c].squeeze(0)), features, difference);
      frames += (parts.frames * of_part(scale)).to(torch::kFloat64).sum(1);
      result.gradient += parts.gradient * of_part(scale);
    }
  }
  result.frames = doubles(frames);
  return result;
}

}  // namespace

double Contributions::gap() const {
  return std::abs(std::accumulate(frames.begin(), frames.end(), 0.0) - (output - baseline));
}

Contributions integrated_gradients(SequenceModel& model, const Dataset& dataset,
                                   const ModelConfig& config, std::uint64_t fit_seed,
                                   std::size_t exam, const ExplainedOutput& output) {
  const Sequence& sequence = dataset.sequences[exam];
  const FrameSampler sampler(config.order, 0, fit_seed);
  const Path path{model,
                  dataset,
                  config,
                  {exam, sampler.for_evaluation(sequence.frames(), sequence.key)},
                  output};
  Contributions result{std::vector<double>(static_cast<std::size_t>(sequence.frames())), 0, 0, 0};
  if (!model.uses_features()) {
    const torch::NoGradGuard no_grad;
    result.output = output(compute_logits(model, dataset, path.batch(1))).item<double>();
    result.baseline = result.output;
    return result;
  }
  auto* const summary = dynamic_cast<SummaryModel*>(&model);
  const Contributions seen =
      summary != nullptr ? integrate_summaries(path, *summary)
                         : completed([&](std::size_t points) { return integrate(path, points); });
  result.gradient = torch::zeros({sequence.frames(), config.features()});
  for (std::size_t step = 0; step < seen.frames.size(); ++step) {
    const std::int64_t frame = path.item.frames.features[step];
    result.frames[static_cast<std::size_t>(frame)] = seen.frames[step];
    result.gradient[frame].copy_(seen.gradient[static_cast<std::int64_t>(step)]);
  }
  result.output = seen.output;
  result.baseline = seen.baseline;
  result.points = seen.points;
  return result;
}

Quadrature gauss_legendre(std::size_t points) {
  const auto n = static_cast<double>(points);
  Quadrature result{std::vector<double>(points), std::vector<double>(points)};
  for (std::size_t i = 0; i < points; ++i) {
    double x = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) / (n + 0.5));
    double slope = 1, step = 1;
    for (int turn = 0; turn < 100 && std::abs(step) > 1e-15; ++turn) {
      double value = 1, before = 0;  // P_k and P_(k−1)
      for (double k = 1; k <= n; ++k) {
        before = std::exchange(value, ((2 * k - 1) * x * value - (k - 1) * before) / k);
      }
      slope = n * (x * value - before) / (x * x - 1);
      step = value / slope;
      x -= step;
    }
    result.points[i] = (1 - x) / 2;
    result.weights[i] = 1 / ((1 - x * x) * slope * slope);
  }
  return result;
}

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

// Adds a model's contribution to the explanation of the exam.
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
  const bool of_summary = dynamic_cast<const SummaryModel*>(trained.model.get()) != nullptr;
  (of_summary ? exam.from_mean_summary : exam.from_mean_images) = true;
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

std::string baseline_name(const ExplainedExam& exam) {
  if (!exam.from_mean_summary) return "mean images";
  return exam.from_mean_images ? "mean images and the training's mean summary"
                               : "the training's mean summary";
}

std::string baseline_text(const std::vector<ExplainedExam>& exams) {
  constexpr const char* kImages = "an exam whose frames are all the training part's mean";
  constexpr const char* kSummaries =
      "the training's mean summary, from which frames share the way by the summary's gradient";
  const bool images = std::ranges::any_of(exams, &ExplainedExam::from_mean_images);
  if (!std::ranges::any_of(exams, &ExplainedExam::from_mean_summary)) return kImages;
  if (!images) return kSummaries;
  return concat(kImages, ", or of linear models of summaries from ", kSummaries);
}

std::string completeness_text(const std::vector<ExplainedExam>& exams) {
  const auto beyond =
      static_cast<std::size_t>(std::count_if(exams.begin(), exams.end(), [](const auto& exam) {
        return exam.largest_gap > kCompleteness;
      }));
  const double gap = std::round(largest_gap(exams) * 1e7) / 1e7;
  std::string text =
      concat("contributions add up to what they explain",
             gap > 0 ? concat(", but for ", exact(gap)) : "", " (tolerance ", exact(kCompleteness));
  if (beyond > 0) text += concat(", missed in ", plural(beyond, "exam"));
  return text + ")";
}

}  // namespace coldframe::temporal
