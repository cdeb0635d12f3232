#include "train_temporal/report/report_text.h"

#include <algorithm>
#include <map>

#include "common/charts/html.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

constexpr std::string_view kNoInterval = " [no interval: ";

std::string with_interval(const Estimate& estimate, const std::string& sign) {
  std::string text = sign + figure_text(estimate.value);
  if (!estimate.value.defined()) return figure_text(estimate.value);
  if (!estimate.low.defined()) return concat(text, kNoInterval, estimate.low.undefined, "]");
  const bool certain = estimate.low.value == estimate.high.value && sign.empty();
  if (certain && estimate.value.value == 0.5) return text + " [of one score for all]";
  return text + " [" + figure_text(estimate.low) + ", " + figure_text(estimate.high) + "]";
}

std::size_t repeats_of(const ModelResult& model) {
  return model.folds.back().repeat - model.folds.front().repeat + 1;
}

}  // namespace

std::string figure_text(const MetricValue& figure) {
  if (!figure.defined()) return "undefined: " + figure.undefined;
  const std::string text = fixed(figure.value, 3);
  return text == "-0.000" ? "0.000" : text;
}

std::string interval_text(const Estimate& estimate) {
  return with_interval(estimate, "");
}

std::string difference_text(const Estimate& difference) {
  return with_interval(difference, difference.value.value >= 0.0005 ? "+" : "");
}

std::string p_text(double p) {
  return p < 0.001 ? "< 0.001" : fixed(p, 3);
}

std::string level_text(const TargetReport& report) {
  return concat(fixed(100 * report.bootstrap.level, 0), " %");
}

std::string ratio_text(double part, double all) {
  return all > 0 ? fixed(part / all, 3) : "–";
}

html::Body figures_table(const std::vector<std::string>& header, html::Rows rows) {
  static const std::vector<std::string> kMarks = {"*", "†", "‡", "§", "‖", "¶"};
  std::vector<std::string> reasons;
  for (auto& row : rows) {
    for (std::string& cell : row) {
      const std::size_t at = cell.find(kNoInterval);
      if (at == cell.npos) continue;
      const std::size_t from = at + kNoInterval.size(), end = cell.rfind(']');
      const std::string reason = cell.substr(from, end - from);
      const auto place =
          static_cast<std::size_t>(std::ranges::find(reasons, reason) - reasons.begin());
      if (place == kMarks.size()) continue;  // the reason stays where it is
      if (place == reasons.size()) reasons.push_back(reason);
      cell.replace(at, end + 1 - at, " " + kMarks[place]);
    }
  }
  html::Body body = html::table(header, rows);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    body += html::note(concat(kMarks[i], " no interval: ", reasons[i], "."));
  return body;
}

std::string model_label(const ModelResult& model) {
  return model.frame.empty() ? model.name : concat(model.name, ", ", model.frame, " frame");
}

bool is_binary(const TargetReport& report) {
  return report.scale == Scale::kNominal && report.classes.size() == 2;
}

bool has_classes(const TargetReport& report) {
  return report.scale == Scale::kNominal || report.scale == Scale::kOrdinal;
}

ScoredExams pooled_exams(const ModelResult& model) {
  return pooled_by_repeat(model.folds).front().exams;
}

const char* labels_name(const TargetReport& report) {
  return report.per_frame ? "frames" : "exams";
}

std::string rows_name(const TargetReport& report) {
  const std::string& of = report.questions.aggregate;
  if (of.empty()) return labels_name(report);
  return of == "patient" ? "patients" : concat("exams averaged by ", of);
}

std::string folds_text(const ModelResult& model) {
  const std::size_t folds = model.folds.size(), repeats = repeats_of(model);
  if (folds == 1) return model.folds_together ? "all folds ranked together" : "one held-out part";
  if (model.folds_together)
    return concat("all folds ranked together, mean over ", folds, " repeats of the split");
  return concat("mean over ", folds, " folds",
                repeats == 1 ? "" : concat(", ", repeats, " repeats of the split"));
}

std::string search_text(const std::vector<Json>& settings) {
  std::vector<std::string> options;
  for (const auto& [option, value] : settings.front().items()) {
    if (!value.is_string()) continue;
    std::map<std::string, std::size_t> count;
    for (const Json& setting : settings) ++count[setting.at(option).get<std::string>()];
    std::vector<std::string> words;
    for (const auto& [word, folds] : count) words.push_back(concat(word, " in ", folds));
    words.front() += concat(" of ", plural(settings.size(), "fold"));
    options.push_back(concat(option, " ", join(words, ", ")));
    std::ranges::replace(options.back(), '_', ' ');
  }
  return join(options, "; ");
}

std::string origin_text(const ModelResult& model, const MetricSummary& summary) {
  if (summary.by_fold || model.folds.size() == 1) return folds_text(model);
  const std::size_t repeats = repeats_of(model);
  return concat(model.folds.size() / repeats, " folds taken together",
                repeats == 1 ? "" : concat(", mean over ", repeats, " repeats of the split"));
}

}  // namespace coldframe::temporal
