#include "train_temporal/fit/summary_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/fit/ridge.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/summary_model.h"

namespace coldframe::temporal {

// The rows of a linear model: standardised summaries of exams, followed by covariates.

struct SummaryDesign {
  torch::Tensor mean, deviation;  // [D] of the summaries
  torch::Tensor x;                // [n, D + K] float64; summaries that are NaN count as their mean
  torch::Tensor covariate_mean;   // [K]; undefined: none
  double covariate_scale = 1;     // all K together weigh as much as the D summaries do
};

// summaries: [n, D]; covariates: [n, K] or undefined.
SummaryDesign summary_design(const torch::Tensor& summaries, const torch::Tensor& covariates);

SummaryDesign summary_design(const torch::Tensor& summaries, const torch::Tensor& covariates) {
  // Of the deviations' mean: what was constant here cannot blow up elsewhere.
  constexpr double kMinDeviation = 0.01;
  SummaryDesign design;
  const torch::Tensor table = summaries.to(torch::kFloat64);
  const torch::Tensor count = table.isnan().logical_not().sum(0).clamp_min(1);
  design.mean = table.nan_to_num(0.0).sum(0) / count;
  const torch::Tensor from_mean = (table - design.mean).nan_to_num(0.0);
  design.deviation = (from_mean.square().sum(0) / count).sqrt();
  const double floor = kMinDeviation * design.deviation.mean().item<double>();
  design.deviation = design.deviation.clamp_min(floor > 0 ? floor : 1.0);
  design.x = from_mean / design.deviation;
  if (!covariates.defined()) return design;
  const torch::Tensor own = covariates.to(torch::kFloat64);
  design.covariate_mean = own.mean(0);
  design.covariate_scale =
      std::sqrt(static_cast<double>(table.size(1)) / static_cast<double>(own.size(1)));
  design.x = torch::cat({design.x, (own - design.covariate_mean) * design.covariate_scale}, 1);
  return design;
}

namespace {

constexpr std::size_t kParts = 5;

// A linear model has one output where the target has one for each of two classes: the logit of the
// second.
bool is_of_two(const Target& target, const RowLabels& labels) {
  return labels.outputs == 1 && target.outputs() == 2;
}

// The target's own outputs from those of a linear model.
std::vector<double> as_outputs(const Target& target, const RowLabels& labels,
                               const std::vector<double>& z) {
  if (!is_of_two(target, labels)) return z;
  std::vector<double> outputs;
  for (const double logit : z) outputs.insert(outputs.end(), {-logit / 2, logit / 2});
  return outputs;
}

// A target is fitted with these.
struct Choice {
  Family family = Family::kAverage;
  LinearFit fit = {};
  // The log odds against constants: a difference of log-likelihoods, and prior_belief().
  double belief = -std::numeric_limits<double>::infinity();
};

// A priori the mean of the frames is as likely as all other families together, which are equally
// likely: where few exams tell them apart, the best of eight or nine is chance.
double prior_belief(Family family, std::size_t families) {
  return family == Family::kAverage ? 0 : -std::log(static_cast<double>(families - 1));
}

// A summary that found something replaces a model unless that is likelier by this many nats, 7 to
// 1: validation parts are small.
constexpr double kLead = 2;

class SummaryFit {
 public:
  explicit SummaryFit(const FitTask& task)
      : task_(task),
        model_(std::dynamic_pointer_cast<SummaryModel>(make_model(task.config, task.seed))),
        source_(source_of(task.dataset)),
        objective_(task.targets, task.split.train, task.options.objective) {
    model_->to(task.dataset.device);
    model_->covariates = task.covariates;
    model_->set_statistics(input_statistics(task.dataset, task.split.train));
    for (torch::Tensor& parameter : model_->parameters()) parameter.zero_();
    std::ranges::merge(task.split.train, task.split.validation, std::back_inserter(exams_));
    for (std::size_t i = 0; i < exams_.size(); ++i) row_of_[exams_[i]] = i;
    held_out_.assign(exams_.size() * width(), 0.0);
    is_squares_.assign(task.targets.size(), false);
    decide_on_times();
    summarise_exams();
    divide();
  }

  FitRecord run() {
    // Targets with labels of the same exams share the axes of these.
    std::map<std::vector<std::size_t>, std::vector<std::size_t>> targets_of;
    for (std::size_t t = 0; t < task_.targets.size(); ++t) targets_of[labeled_rows(t)].push_back(t);
    for (const auto& [rows, targets] : targets_of)
      if (!rows.empty()) fit_targets(rows, targets);
    return result();
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(task_.config.outputs); }

  // Slopes are per second where the training part's times are all known and may be seen.
  void decide_on_times() {
    const auto timed = [&](std::size_t exam) {
      return std::ranges::all_of(task_.dataset.sequences[exam].time_s,
                                 [](double time) { return std::isfinite(time); });
    };
    const bool sees = !task_.hides_times && std::ranges::all_of(task_.split.train, timed);
    model_->per_second.fill_(sees ? 1 : 0);
  }

  void summarise_exams() {
    if (task_.config.blank) {  // which leaves the constant, and covariates
      tables_.push_back(torch::zeros({std::ssize(exams_), task_.config.dimension}));
      return;
    }
    const bool visits = std::ranges::any_of(
        exams_, [&](std::size_t exam) { return task_.dataset.sequences[exam].visits.own > 0; });
    for (std::int64_t f = 0; f < (visits ? kFamilies : kFamilies - 1); ++f)  // they are the last
      tables_.push_back(torch::empty({std::ssize(exams_), task_.config.dimension}));
    const std::size_t at_once = evaluation_size(task_.dataset);
    const auto groups = in_groups(exams_, std::min(source_->exams_at_once(), at_once));
    source_->plan(groups);
    const FrameSampler sampler(task_.config.order, 0, task_.seed);
    for (const auto& group : groups) {
      source_->next();
      const Dataset& window = source_->window();
      std::vector<BatchItem> items;
      for (const std::size_t exam : group) {
        const Sequence& sequence = window.sequences[exam];
        items.push_back({exam, sampler.for_evaluation(sequence.frames(), sequence.key)});
      }
      const PackedBatch batch = make_batch(window, std::move(items));
      std::vector<std::size_t> rows;
      for (const std::size_t exam : batch.exams) rows.push_back(row_of_.at(exam));
      keep_summaries(gather_features(window, batch), batch, index_of(rows));
    }
  }

  void keep_summaries(const torch::Tensor& features, const PackedBatch& batch,
                      const torch::Tensor& rows) {
    for (std::size_t f = 0; f < tables_.size(); ++f)
      tables_[f].index_copy_(0, rows,
                             model_->summaries(static_cast<Family>(f), features, batch).cpu());
  }

  // Patients go to parts as those of folds do.
  void divide() {
    const auto groups = group_by_patient(task_.targets, *task_.patients, exams_);
    parts_.count = std::min(kParts, groups.size());
    const std::vector<double> shares(parts_.count, 1.0 / static_cast<double>(parts_.count));
    const auto part_of = assign_groups(groups, shares, {task_.seed});
    parts_.of_row.assign(exams_.size(), 0);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::size_t exam : groups[g].exams) parts_.of_row[row_of_.at(exam)] = part_of[g];
  }

  std::vector<std::size_t> labeled_rows(std::size_t target) const {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < exams_.size(); ++i)
      if (!std::isnan(task_.targets[target].at(exams_[i], 0))) rows.push_back(i);
    return rows;
  }

  std::vector<std::size_t> exams_at(const std::vector<std::size_t>& rows) const {
    std::vector<std::size_t> exams;
    for (const std::size_t row : rows) exams.push_back(exams_[row]);
    return exams;
  }

  SummaryDesign design(const std::vector<std::size_t>& rows, Family family) const {
    torch::Tensor covariates;
    if (task_.covariates.defined())
      covariates = task_.covariates.index_select(0, index_of(exams_at(rows)));
    const torch::Tensor& table = tables_[static_cast<std::size_t>(family)];
    return summary_design(table.index_select(0, index_of(rows)), covariates);
  }

  void fit_targets(const std::vector<std::size_t>& rows, const std::vector<std::size_t>& targets) {
    RowFolds parts{{}, parts_.count};
    for (const std::size_t row : rows) parts.of_row.push_back(parts_.of_row[row]);
    std::vector<RowLabels> labels;
    for (const std::size_t t : targets) {
      const Labels& own = task_.targets[t];
      const Readout readout = readout_of(own, task_.split.train);
      labels.push_back(own.kind().linear_rows(own, readout));
      for (const std::size_t exam : exams_at(rows))
        own.kind().add_row(labels.back(), readout, own.at(exam, 0));
    }
    std::vector<Choice> best(targets.size());
    std::vector<double> by_constants;
    const PrincipalAxes none = no_axes(std::ssize(rows));
    for (const RowLabels& own : labels)
      by_constants.push_back(log_likelihood(own, choose_fit(none, own, parts).loss));
    for (std::size_t f = 0; f < tables_.size(); ++f) {
      const auto family = static_cast<Family>(f);
      const PrincipalAxes axes = principal_axes(design(rows, family).x);
      for (std::size_t i = 0; i < targets.size(); ++i) {
        LinearFit found = choose_fit(axes, labels[i], parts);
        const double belief = log_likelihood(labels[i], found.loss) - by_constants[i] +
                              prior_belief(family, tables_.size());
        if (belief > best[i].belief) best[i] = {family, std::move(found), belief};
      }
    }
    for (std::size_t i = 0; i < targets.size(); ++i) fit(targets[i], rows, labels[i], best[i]);
  }

  void fit(std::size_t target, const std::vector<std::size_t>& rows, const RowLabels& labels,
           const Choice& choice) {
    belief_ += choice.belief;
    is_squares_[target] = labels.loss == RowLabels::Loss::kSquares;
    const Labels& own = task_.targets[target];
    const std::size_t first = task_.targets.first_output(target);
    const SummaryDesign x = design(rows, choice.family);
    const PrincipalAxes axes = principal_axes(x.x);
    const torch::Tensor fitted = fit_chosen(axes, labels, choice.fit);
    const std::int64_t last = fitted.size(0) - 1;
    const torch::Tensor weights = axes.axes.mm(fitted.narrow(0, 0, last)).t();  // [C, D + K]
    write(first, x, weights, fitted.select(0, last), choice.family, is_of_two(own, labels));
    const auto outputs = as_outputs(own, labels, choice.fit.held_out);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(&outputs[i * own.outputs()], own.outputs(),
                  &held_out_[rows[i] * width() + first]);
  }

  void write(std::size_t first, const SummaryDesign& x, torch::Tensor weights, torch::Tensor bias,
             Family family, bool of_two) {
    if (of_two) {
      weights = torch::cat({-weights / 2, weights / 2});
      bias = torch::cat({-bias / 2, bias / 2});
    }
    const std::int64_t count = weights.size(0), D = task_.config.dimension;
    const auto rows = [&](const torch::Tensor& table) {
      return table.narrow(0, static_cast<std::int64_t>(first), count);
    };
    if (x.covariate_mean.defined()) {
      const torch::Tensor own = weights.narrow(1, D, weights.size(1) - D) * x.covariate_scale;
      rows(model_->covariate_head->weight).copy_(own);
      bias = bias - own.mv(x.covariate_mean);
    }
    rows(model_->family).fill_(static_cast<double>(family));
    rows(model_->summary_mean).copy_(x.mean.expand({count, -1}));
    rows(model_->summary_std).copy_(x.deviation.expand({count, -1}));
    rows(model_->head->weight).copy_(weights.narrow(1, 0, D));
    rows(model_->head->bias).copy_(bias);
  }

  FitRecord result() {
    FitRecord result;
    result.weights = state_dict(*model_);
    result.families = doubles(model_->family);
    result.seed = task_.seed;
    result.micro_batches = first_micro_batches(task_);
    for (const std::size_t exam : task_.split.validation) {
      const auto row = held_out_.begin() + static_cast<std::ptrdiff_t>(row_of_.at(exam) * width());
      result.validation_logits.insert(result.validation_logits.end(), row,
                                      row + static_cast<std::ptrdiff_t>(width()));
    }
    take_unlabeled(result.validation_logits);
    result.test_logits = predict(task_.split.test);
    auto of_train = predict(task_.split.train);
    const LossSum validation = objective_.of(result.validation_logits, task_.split.validation);
    const auto measured = validation_figure(task_.targets, task_.split, result.validation_logits);
    // The early-stopping metric, by which a fold chooses between models.
    const bool watched = task_.options.stopping_metric == StoppingMetric::kMetric;
    result.history.push_back({objective_.of(of_train, task_.split.train).mean(), validation.mean(),
                              0, watched ? measured.value_or(0) : 0, measured});
    if (objective_.couples()) result.train_logits = std::move(of_train);
    if (belief_ > 0) result.lead = lead(validation);
    return result;
  }

  // kLead as a difference of mean losses: over exams (of Cox's events), then over targets. A mean
  // square L of n exams is n log(L) / 2 nats.
  double lead(const LossSum& validation) const {
    double sum = 0;
    for (std::size_t t = 0; t < validation.targets.size(); ++t) {
      const auto& [loss, weight] = validation.targets[t];
      if (weight <= 0) continue;
      sum += is_squares_[t] ? -std::expm1(-2 * kLead / weight) * loss / weight : kLead / weight;
    }
    const auto targets =
        static_cast<double>(std::max<std::size_t>(validation.labeled_targets(), 1));
    return sum / (targets * targets);
  }

  // Exams without a label for a target took no part in its fit.
  void take_unlabeled(std::vector<double>& logits) {
    const auto final = predict(task_.split.validation);
    for (std::size_t t = 0; t < task_.targets.size(); ++t) {
      const std::size_t first = task_.targets.first_output(t);
      for (std::size_t i = 0; i < task_.split.validation.size(); ++i) {
        if (!std::isnan(task_.targets[t].at(task_.split.validation[i], 0))) continue;
        std::copy_n(&final[i * width() + first], task_.targets[t].outputs(),
                    &logits[i * width() + first]);
      }
    }
  }

  std::vector<double> predict(const std::vector<std::size_t>& exams) {
    ThreadTeam team(1);
    const auto groups = in_groups(exams, source_->exams_at_once());
    source_->plan(groups);
    std::vector<double> all;
    for (const auto& group : groups) {
      source_->next();
      const auto part = predict_logits(
          *model_, {source_->window(), task_.config, task_.seed, evaluation_size(task_.dataset)},
          group, team);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  const FitTask& task_;
  std::shared_ptr<SummaryModel> model_;
  std::unique_ptr<FeatureSource> source_;
  Objective objective_;
  std::vector<std::size_t> exams_;             // of both parts, ascending
  std::map<std::size_t, std::size_t> row_of_;  // of an exam among these
  std::vector<torch::Tensor> tables_;          // [family] of all of them, [n, D]
  RowFolds parts_;
  std::vector<double> held_out_;  // [n, C] predictions without the exam's part
  double belief_ = 0;             // Choice::belief of all targets
  std::vector<bool> is_squares_;  // the loss of each target
};

}  // namespace

FitRecord fit_summary(const FitTask& task) {
  torch::NoGradGuard no_grad;
  return SummaryFit(task).run();
}

}  // namespace coldframe::temporal
