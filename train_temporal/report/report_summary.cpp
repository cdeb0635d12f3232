// The run's figures for programs (summary.json) and for the terminal.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/metrics/fit_spread.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

Json to_json(const FoldChoice::Part& part) {
  return {{"exams", part.exams}, {"patients", part.patients}};
}

Json to_json(const FoldChoice& choice) {
  Json json = {{"repeat", choice.repeat},
               {"fold", choice.fold},
               {"train", to_json(choice.train)},
               {"validation", to_json(choice.validation)},
               {"test", to_json(choice.test)},
               {"temperature", json_number(choice.temperature)},
               {"threshold", json_number(choice.threshold)}};
  if (!choice.setting.is_null()) json["setting"] = choice.setting;
  return json;
}

// True when both hold the same held-out exams in the same folds, so that they can be paired.
bool same_exams(const ModelResult& a, const ModelResult& b) {
  return std::ranges::equal(a.folds, b.folds, [](const FoldScores& x, const FoldScores& y) {
    return x.repeat == y.repeat && x.fold == y.fold && x.patient == y.patient &&
           x.exams.label == y.exams.label && x.exams.number == y.exams.number &&
           x.exams.width == y.exams.width;
  });
}

// Takes what was asked from the rows of options.
struct AskedRows {
  Json json = Json::object();

  template <class Value>
  void number(std::string name, const Value& value, auto&&...) {
    if (value == Value()) return;
    std::ranges::replace(name, '-', '_');
    if constexpr (requires { *value; })
      json[name] = *value;
    else
      json[name] = value;
  }
  void names(const char* name, const auto& value, auto&&...) { number(name, value); }
  void text(const char* name, const auto& value, auto&&...) { number(name, value); }
  void toggle(auto&&...) {}  // changes no figure
};

}  // namespace

Json to_json(const Estimate& estimate) {
  Json json = {{"value", json_number(estimate.value.value)},
               {"low", json_number(estimate.low.value)},
               {"high", json_number(estimate.high.value)}};
  if (!estimate.value.defined()) json["undefined"] = estimate.value.undefined;
  if (estimate.value.defined() && !estimate.low.defined())
    json["no_interval"] = estimate.low.undefined;
  if (!std::isnan(estimate.error_of_fits)) json["error_of_fits"] = estimate.error_of_fits;
  return json;
}

Json to_json(const MetricSummary& summary) {
  Json per_fold = Json::array();
  for (const MetricValue& figure : summary.per_fold) per_fold.push_back(json_number(figure.value));
  return {{"primary", summary.by_fold ? "mean_over_folds" : "pooled"},
          {"mean_over_folds", to_json(summary.mean_over_folds)},
          {"sd_over_folds", json_number(summary.sd_over_folds)},
          {"pooled", to_json(summary.pooled)},
          {"per_fold", per_fold}};
}

Json to_json(const ModelResult& model) {
  Json json = {{"name", model.name}, {"metrics", Json::object()}};
  if (!model.frame.empty()) json["frame"] = model.frame;
  if (!model.families.empty()) json["families"] = model.families;
  if (const Taken taken = taken_by(model); taken.all > 0)
    json["taken"] = {{model.sequence_model, taken.all - taken.summaries},
                     {"summary", taken.summaries}};
  for (const MetricSummary& summary : model.summary)
    json["metrics"][std::string(summary.metric->key)] = to_json(summary);
  if (model.difference.empty()) return json;
  Json& differences = json["first_model_minus_this"] = Json::object();
  for (const PairedDifference& difference : model.difference) {
    differences[std::string(difference.metric->key)] = {
        {"mean_over_folds", to_json(difference.mean_over_folds)},
        {"pooled", to_json(difference.pooled)}};
  }
  return json;
}

std::vector<MetricTable> evaluate_models(std::vector<ModelResult>& models, double level,
                                         const std::function<void()>& done) {
  std::vector<MetricTable> tables;
  std::vector<MetricOfFits> main, own;
  for (ModelResult& model : models) {
    if (!same_exams(models.front(), model))
      throw std::logic_error("models to be compared hold out different exams");
    tables.push_back(leave_out_patients(model.folds, level));
    model.summary = summarize(tables.back());
    own = figures_of_fits(tables.back(), model.folds, model.fits);
    if (tables.size() == 1) main = own;
    if (tables.size() > 1) {
      model.difference = paired_differences(tables.front(), tables.back());
      if (!model.is_as_it_is) include_fits(model.difference, main, own, level);
    }
    if (done) done();
  }
  return tables;
}

Json questions_json(Questions questions) {
  if (questions.level == 95) questions.level.reset();  // as without the question
  AskedRows asked;
  add_questions(asked, questions);
  return asked.json;
}

Json metrics_json(const TargetReport& report) {
  Json json = {{"target", report.target},
               {"task", report.task},
               {"per_frame", report.per_frame},
               {"classes", report.classes},
               {"split", report.split},
               {"exams", report.data.exams},
               {"patients", report.data.patients},
               {"unlabeled", report.data.unlabeled},
               {"interval",
                {{"level", report.bootstrap.level},
                 {"method", "each patient left out in turn (jackknife), score intervals"},
                 {"unit", "patient"}}},
               {"models", Json::array()},
               {"folds", Json::array()},
               {"verdict", verdict(report)},
               {"warnings", all_warnings(report)}};
  if (const Json asked = questions_json(report.questions); !asked.empty()) json["asked"] = asked;
  for_sections(report, [&](const Section& section) {
    if (section.json != nullptr) section.json(json, report);
  });
  if (report.per_frame) json["masked_frames"] = report.data.masked_frames;
  for (const ModelResult& model : report.models) json["models"].push_back(to_json(model));
  for (const FoldChoice& choice : report.choices) json["folds"].push_back(to_json(choice));
  return json;
}

const Json& main_model_of(const Json& summary) {
  const Json& first = summary.contains("targets") ? summary.at("targets").at(0) : summary;
  return first.at("models").at(0);
}

std::string fits_text(const Json& model) {
  const Json taken = model.value("taken", Json::object());
  std::vector<std::string> words;
  for (const auto& [name, fits] : taken.items()) words.push_back(concat(name, " ", fits.dump()));
  return join(words, ", ");
}

std::string summary_text(const TargetReport& report) {
  const ModelResult& main = report.models.front();
  const bool one_part = main.folds.size() == 1;
  std::string text =
      concat(main.name, " on '", report.target, "'", report.per_frame ? " of frames" : "",
             report.questions.aggregate.empty() ? "" : " of " + rows_name(report), ", ",
             folds_text(main), ", ", level_text(report), " intervals by patient\n");
  for (const MetricSummary& summary : main.summary) {
    text += concat("  ", padded(summary.metric->title, 22), interval_text(summary.primary()));
    if (!one_part && summary.by_fold) text += concat("   pooled ", interval_text(summary.pooled));
    if (!one_part && !summary.by_fold) text += "   pooled";
    text += "\n";
  }
  if (const std::string taken = taken_text(main); !taken.empty()) text += taken + "\n";
  const Metric metric = main_metric(report.scale);
  if (report.models.size() > 1) {
    text += concat(metric->title,
                   report.against.empty() ? " of the controls, and " : " of the others, and ",
                   main.name, " ahead by\n");
  }
  std::size_t width = 8;
  for (const ModelResult& model : report.models) width = std::max(width, model_label(model).size());
  for (const ModelResult& model : report.models) {
    const MetricSummary* figure = find_metric(model.summary, metric);
    const PairedDifference* ahead = find_metric(model.difference, metric);
    if (figure == nullptr || ahead == nullptr) continue;
    text += concat("  ", padded(model_label(model), width + 2),
                   padded(interval_text(figure->primary()), 24), " ",
                   difference_text(ahead->primary()), "\n");
  }
  for_sections(report, [&](const Section& section) {
    if (section.text != nullptr) text += section.text(report);
  });
  for (const std::string& line : verdict(report)) text += line + "\n";
  return text;
}

}  // namespace coldframe::temporal
