// The verdict with the main model's figures, what to be wary of, and the models beside each other.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "common/charts/html.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/subgroups.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

html::Body result_section(const TargetReport& report) {
  const ModelResult& main = report.models.front();
  html::Body body;
  for (const std::string& line : verdict(report)) body += html::paragraph(line);
  if (const std::string alone = confound_sentence(report); !alone.empty())
    body += html::paragraph(alone);
  const bool one_part = main.folds.size() == 1;
  const std::string level = level_text(report);
  std::vector<std::string> header = {"", concat(folds_text(main), " [", level, " interval]")};
  if (!one_part) {
    header.push_back("SD over folds");
    header.push_back(concat("all folds together [", level, " interval]"));
  }
  html::Rows rows;
  for (const MetricSummary& summary : main.summary) {
    const bool as_headed =
        !summary.by_fold || header[1].starts_with(concat("mean over ", folds_of(summary)));
    std::vector<std::string> row = {
        concat(title_of(summary.metric, report.classes.size()),
               as_headed ? "" : concat(", ", folds_of(summary))),
        one_part || summary.by_fold ? interval_text(summary.primary()) : std::string("–")};
    if (!one_part) {
      const bool spread = summary.by_fold && !std::isnan(summary.sd_over_folds);
      row.push_back(spread ? fixed(summary.sd_over_folds, 3) : "–");
      row.push_back(interval_text(summary.pooled));
    }
    row[1] += present_text(summary);
    rows.push_back(std::move(row));
  }
  body += figures_table(header, rows) + families_table(main);
  body += html::paragraph(concat(
      "Intervals are score intervals by the spread that leaving out each patient in turn shows. ",
      one_part ? "" : words_of(report.scale).about_ranks,
      words_of(report.scale).about_figures(report)));
  return body;
}

html::Body models_section(const TargetReport& report) {
  const std::vector<Metric> metrics = compared_metrics(report.scale);
  std::vector<std::string> header = {"model"};
  for (Metric metric : metrics) header.push_back(title_of(metric, report.classes.size()));
  header.push_back(concat(header[1], " of ", report.models.front().name, " − this"));
  html::Rows rows;
  for (const ModelResult& model : report.models) {
    std::vector<std::string> row = {model_label(model) + model.about};
    for (Metric metric : metrics) {
      const MetricSummary* summary = find_metric(model.summary, metric);
      row.push_back(summary ? interval_text(summary->primary()) : "–");
    }
    const PairedDifference* ahead = find_metric(model.difference, metrics.front());
    row.push_back(ahead ? difference_text(ahead->primary()) : "–");
    rows.push_back(std::move(row));
  }
  if (const auto& pair = report.in_order_and_shuffled; !pair.empty()) {
    std::vector<std::string> row = {concat(pair[0].name, " on shuffled frames (control)")};
    for (Metric metric : metrics) {
      const MetricSummary* summary = find_metric(pair[1].summary, metric);
      row.push_back(summary ? interval_text(summary->primary()) : "–");
    }
    row.push_back(
        concat(difference_text(find_metric(pair[1].difference, metrics.front())->primary()),
               ", of ", pair[0].name, " in order"));
    rows.push_back(std::move(row));
  }
  html::Body of_controls;
  for (std::size_t m = 1; m < report.models.size(); ++m)
    of_controls += families_table(report.models[m]);
  return figures_table(header, rows) +
         html::paragraph(concat(
             "Differences are paired: both models on the same patients, each left out of both in "
             "turn.",
             report.against.empty() ? " With three seeds or repeats their intervals know how much "
                                      "fits differ."
                                    : "",
             claims_text(report).empty() ? "" : " ", claims_text(report))) +
         of_controls + model_roc_chart(report);
}

void add_model_figures(FigureTable& table, const TargetReport& report) {
  const std::string& main = report.models.front().name;
  for (const ModelResult& model : report.models) {
    table.add({model.name, "", "", "figure"}, model.summary);
    for (const PairedDifference& one : model.difference)
      table.add({model.name, "", "", main + " minus this"}, std::string(one.metric->key),
                one.primary());
  }
}

}  // namespace

std::span<const Section> result_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Result", .body = result_section, .figures = add_model_figures}};
  return kSections;
}

std::span<const Section> model_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Warnings",
       .applies = [](const TargetReport& report) { return !all_warnings(report).empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::list(all_warnings(report));
       }},
      {.heading = "Models and controls",
       .applies = [](const TargetReport& report) { return report.models.size() > 1; },
       .body = models_section,
       .drawings = {{{"roc_of_models", model_roc_chart}}}}};
  return kSections;
}

// Predicted numbers.

namespace {

std::string scatter_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  if (all.size() == 0) return {};
  html::Chart chart{concat("Held-out ", rows_name(report), ": predicted '", report.target,
                           "' against the true one"),
                    "true", "predicted"};
  const auto [least, most] = std::ranges::minmax(all.number);
  chart.series = {
      {.name = "predicted = true", .x = {least, most}, .y = {least, most}, .dashed = true},
      {.name = "predictions", .x = all.number, .y = all.predicted, .points = true}};
  chart.large = true;
  return html::line_chart(chart);
}

// Bland and Altman 1986 draw over the mean of both. Over the true number alone, errors seem to
// depend on it where they do not.
std::string agreement_chart(const TargetReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  html::Series points{.name = "predictions", .points = true};
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double difference = all.predicted[i] - all.number[i];
    if (!std::isfinite(difference)) continue;
    points.x.push_back((all.predicted[i] + all.number[i]) / 2);
    points.y.push_back(difference);
    sum += difference;
  }
  const auto n = static_cast<double>(points.y.size());
  if (n < 2) return {};
  for (const double one : points.y) squares += (one - sum / n) * (one - sum / n);
  const double reach = 1.96 * std::sqrt(squares / (n - 1));
  html::Chart chart{concat("Held-out ", rows_name(report), ": agreement of predicted and true '",
                           report.target, "'"),
                    "mean of both", "predicted − true"};
  chart.series = {points};
  const auto [least, most] = std::ranges::minmax(points.x);
  for (const auto& [name, y] : {std::pair("mean difference ", sum / n),
                                {"limit of agreement ", sum / n - reach},
                                {"limit of agreement ", sum / n + reach}})
    chart.series.push_back(
        {.name = name + fixed(y, 3), .x = {least, most}, .y = {y, y}, .dashed = true});
  chart.large = true;
  return html::line_chart(chart);
}

html::Body agreement(const TargetReport& report) {
  const std::string chart = agreement_chart(report);
  if (chart.empty()) return {};
  return chart + html::paragraph(concat(
                     "The outer lines are the mean difference ± 1.96 standard deviations: if "
                     "differences are normal, about 95 of 100 lie between them. All ",
                     rows_name(report), " count alike, also several of one patient."));
}

bool is_of_numbers(const TargetReport& report) {
  return report.scale == Scale::kNumber;
}

}  // namespace

std::span<const Section> number_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Predictions",
       .applies = is_of_numbers,
       .body = [](const TargetReport& report) -> html::Body { return scatter_chart(report); },
       .drawings = {{{"predictions", scatter_chart}}}},
      {.heading = "Agreement",
       .applies = is_of_numbers,
       .body = agreement,
       .drawings = {{{"agreement", agreement_chart}}}}};
  return kSections;
}

// Groups that are held out one at a time, such as sites.

namespace {

// Of the groups in which both are defined.
std::vector<MetricValue> differences(const std::vector<MetricValue>& a,
                                     const std::vector<MetricValue>& b) {
  std::vector<MetricValue> values;
  for (std::size_t g = 0; g < std::min(a.size(), b.size()); ++g)
    if (a[g].defined() && b[g].defined())
      values.push_back(MetricValue::of(a[g].value - b[g].value));
  return values;
}

}  // namespace

void know_that_groups_differ(TargetReport& report) {
  if (report.held_out_by.empty()) return;
  const double level = report.bootstrap.level;
  const std::vector<MetricSummary> main = report.models.front().summary;
  const auto widen = [&](MetricSummary& figure) {
    for (Estimate* one : {&figure.mean_over_folds, &figure.pooled})
      widen_by_groups(*one, figure.per_fold, level, range_of(figure.metric));
  };
  for (FiguresOfClass& of_class : report.by_class)
    for (MetricSummary& figure : of_class.summary) widen(figure);
  for (ModelResult& model : report.models) {
    for (std::size_t m = 0; m < model.summary.size(); ++m) {
      MetricSummary& figure = model.summary[m];
      widen(figure);
      if (m >= model.difference.size()) continue;
      const double most = largest_difference(figure.metric);
      const auto ahead = differences(main[m].per_fold, figure.per_fold);
      for (Estimate* one : {&model.difference[m].mean_over_folds, &model.difference[m].pooled})
        widen_by_groups(*one, ahead, level, {-most, most});
    }
  }
}

std::string groups_text(const TargetReport& report) {
  const std::size_t groups = report.models.front().folds.size();
  const auto column =
      std::ranges::find(report.subgroups, report.held_out_by, &SubgroupColumn::column);
  const std::size_t values = column == report.subgroups.end() ? groups : column->values.size();
  return concat(plural(groups, "group"), " of '", report.held_out_by, "'",
                values > groups
                    ? concat(" (of ", values, " values, those that share a patient are one group)")
                    : "");
}

void warn_of_groups(const TargetReport& report, std::vector<std::string>& warnings) {
  const Metric metric = main_metric(report.scale);
  for (const SubgroupColumn& column : report.subgroups) {
    if (column.column != report.held_out_by) continue;
    for (const Subgroup& group : column.groups) {
      const MetricSummary* figure = find_metric(group.summary, metric);
      if (figure == nullptr) continue;
      const Estimate& estimate = figure->primary();
      if (!(estimate.claim_high < metric->chance)) continue;
      warnings.push_back(concat("'", group.value, "' of '", column.column,
                                "' lies below chance: ", report.models.front().name, " reaches ",
                                title_of(metric, report.classes.size()), " ",
                                interval_text(estimate),
                                " there, so that it is wrong to use it in a group like that; ",
                                "look at how its labels and images were made"));
    }
  }
}

// The main model's figures on the exams of each value of a column.

namespace {

const MetricSummary* main_figure(const TargetReport& report, const Subgroup& group) {
  return find_metric(group.summary, main_metric(report.scale));
}

std::string main_title(const TargetReport& report) {
  return title_of(main_metric(report.scale), report.classes.size());
}

std::string ahead_text(const TargetReport& report, const Subgroup& group) {
  const MetricSummary* main = main_figure(report, group);
  if (main == nullptr || group.minus_others.empty()) return "–";
  return difference_text(group.minus_others[static_cast<std::size_t>(main - group.summary.data())]);
}

html::Body counts_table(const TargetReport& report, const SubgroupColumn& column) {
  std::vector<std::string> header = {column.column, rows_name(report), "patients"};
  header.insert(header.end(), report.classes.begin(), report.classes.end());
  header.push_back(concat(main_title(report), " − that of the others"));
  html::Rows rows;
  for (const Subgroup& group : column.groups) {
    rows.push_back({group.value, concat(group.exams), concat(group.patients)});
    for (std::size_t of_class : group.exams_per_class) rows.back().push_back(concat(of_class));
    rows.back().resize(header.size() - 1, "–");
    rows.back().push_back(ahead_text(report, group));
  }
  return figures_table(header, rows);
}

html::Body figures_by_value(const TargetReport& report, const SubgroupColumn& column) {
  std::vector<std::string> header = {""};
  for (const Subgroup& group : column.groups) header.push_back(group.value);
  html::Rows rows;
  const std::vector<MetricSummary>& all = report.models.front().summary;
  for (std::size_t m = 0; m < all.size(); ++m) {
    rows.push_back({title_of(all[m].metric, report.classes.size())});
    for (const Subgroup& group : column.groups)
      rows.back().push_back(group.summary.empty() ? "–"
                                                  : interval_text(group.summary[m].primary()));
  }
  return figures_table(header, rows);
}

// Names what is too small for any interval of the main figure.
std::string small_groups(const TargetReport& report, const SubgroupColumn& column) {
  std::vector<std::string> small;
  for (const Subgroup& group : column.groups) {
    const MetricSummary* main = main_figure(report, group);
    if (main == nullptr || !main->primary().low.defined())
      small.push_back(concat("'", group.value, "' (", group.exams, " ", rows_name(report), " of ",
                             plural(group.patients, "patient"), ")"));
  }
  if (small.empty()) return {};
  return concat("Too few to say anything of the ", main_title(report), ": ", join(small, ", "),
                ".");
}

html::Body subgroup_section(const TargetReport& report, const SubgroupColumn& column) {
  html::Body body = counts_table(report, column) + figures_by_value(report, column);
  if (const std::string small = small_groups(report, column); !small.empty())
    body += html::paragraph(small);
  if (column.without_value > 0)
    body += html::paragraph(concat(column.without_value, " ", rows_name(report),
                                   " without a value of '", column.column, "' are in no group."));
  return body + html::paragraph(concat(
                    "Figures of ", report.models.front().name,
                    ", with intervals by patient. Differences are between patients, not paired: "
                    "where nothing differs, ",
                    fixed(100 * (1 - report.bootstrap.level), 0),
                    " in 100 of their intervals exclude 0 all the same. "
                    "Groups that share patients have no interval of their difference."));
}

void evaluate_subgroups(TargetReport& report) {
  for (SubgroupColumn& column : report.subgroups)
    evaluate_groups(column, report.models.front().folds, report.classes.size(),
                    report.bootstrap.level);
}

void add_subgroups(html::Page& page, const TargetReport& report, const std::string& of) {
  for (const SubgroupColumn& column : report.subgroups)
    page.section(concat("By ", column.column, of), subgroup_section(report, column));
}

void add_subgroups(Json& summary, const TargetReport& report) {
  Json& json = summary["subgroups"];
  for (const SubgroupColumn& column : report.subgroups) {
    Json& of_column =
        json[column.column] = {{"without_value", column.without_value}, {"groups", Json::array()}};
    for (const Subgroup& group : column.groups) {
      Json entry = {{"value", group.value},       {"exams", group.exams},
                    {"patients", group.patients}, {"exams_per_class", group.exams_per_class},
                    {"metrics", Json::object()},  {"minus_others", Json::object()}};
      for (std::size_t m = 0; m < group.summary.size(); ++m) {
        const std::string key(group.summary[m].metric->key);
        entry["metrics"][key] = to_json(group.summary[m]);
        if (m < group.minus_others.size())
          entry["minus_others"][key] = to_json(group.minus_others[m]);
      }
      of_column["groups"].push_back(std::move(entry));
    }
  }
}

std::string subgroups_text(const TargetReport& report) {
  std::string text;
  for (const SubgroupColumn& column : report.subgroups) {
    text += concat(main_title(report), " by ", column.column, ", and ahead of the others by\n");
    std::size_t width = 8;
    for (const Subgroup& group : column.groups)
      width = std::max(width, letters(printable(group.value)));
    for (const Subgroup& group : column.groups) {
      const MetricSummary* main = main_figure(report, group);
      const std::string figure = main ? interval_text(main->primary()) : "held out nowhere";
      text += concat("  ", padded(printable(group.value), width + 2), padded(figure, 24), " ",
                     ahead_text(report, group), "   ", group.exams, " ", rows_name(report), " of ",
                     plural(group.patients, "patient"), "\n");
    }
  }
  return text;
}

void add_subgroup_figures(FigureTable& table, const TargetReport& report) {
  const std::string& main = report.models.front().name;
  for (const SubgroupColumn& column : report.subgroups) {
    for (const Subgroup& group : column.groups) {
      table.add({main, column.column, group.value, "figure"}, group.summary);
      for (std::size_t m = 0; m < group.minus_others.size(); ++m)
        table.add({main, column.column, group.value, "minus the others"},
                  std::string(group.summary[m].metric->key), group.minus_others[m]);
    }
  }
}

}  // namespace

std::span<const Section> subgroup_sections() {
  static constexpr Section kSections[] = {
      {.heading = "By",
       .applies = [](const TargetReport& report) { return !report.subgroups.empty(); },
       .page = add_subgroups,
       .evaluate = evaluate_subgroups,
       .json = add_subgroups,
       .text = subgroups_text,
       .figures = add_subgroup_figures}};
  return kSections;
}

// What fits chose: the summaries over time of `summary`, and the models of `auto`.

std::string families_text(const ModelResult& model) {
  std::map<std::string, std::size_t> count;
  std::size_t all = 0;
  for (const auto& fold : model.families)
    for (const std::string& family : fold)
      if (family != kNoFamily) ++count[family], ++all;
  if (count.size() == 1)
    return concat(count.begin()->first, " in ", all == 1 ? "its" : "each", " fit");
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const auto& [family, fits] : count) ranked.emplace_back(fits, family);
  std::ranges::sort(ranked, std::greater{});
  std::vector<std::string> parts;
  for (const auto& [fits, family] : ranked)
    parts.push_back(
        concat(family, " in ", fits, parts.empty() ? concat(" of ", plural(all, "fit")) : ""));
  return join(parts, ", ");
}

Taken taken_by(const ModelResult& model) {
  Taken taken;
  if (model.sequence_model.empty()) return taken;
  for (const auto& fold : model.families)
    for (const std::string& family : fold) ++taken.all, taken.summaries += family != kNoFamily;
  return taken;
}

std::string found_text(const ModelResult& model) {
  if (model.families.empty()) return "";
  if (model.sequence_model.empty()) return concat("; it took ", families_text(model));
  const auto [all, summaries] = taken_by(model);
  return concat("; it took a summary in ", summaries, " of ", plural(all, "fit"));
}

std::string taken_text(const ModelResult& model) {
  const auto [all, summaries] = taken_by(model);
  if (all == 0) return "";
  std::vector<std::string> parts;
  const auto add = [&](const std::string& what, std::size_t fits) {
    if (fits > 0) parts.push_back(concat(what, " in ", fits, " of ", plural(all, "fit")));
  };
  add(model.sequence_model, all - summaries);
  add("a summary of the frames", summaries);
  const std::string of = summaries > 0 ? concat(" (", families_text(model), ")") : "";
  return concat(model.name, " took ", join(parts, " and "), of,
                ". A fit takes a summary that found something, unless ", model.sequence_model,
                " is clearly better on the validation part.");
}

html::Body families_table(const ModelResult& model) {
  html::Body body;
  if (const std::string taken = taken_text(model); !taken.empty()) body += html::paragraph(taken);
  if (model.families.empty() || model.folds.size() < 2) return body;
  const bool several = model.folds.back().repeat != model.folds.front().repeat;
  html::Rows rows;
  for (std::size_t f = 0; f < model.families.size(); ++f) {
    std::vector<std::string> fits = model.families[f];
    std::ranges::replace(fits, std::string(kNoFamily), model.sequence_model);
    rows.push_back({concat(model.folds[f].fold), join(fits, ", ")});
    if (several) rows.back().insert(rows.back().begin(), concat(model.folds[f].repeat));
  }
  std::vector<std::string> header = {
      "fold", model.families.front().size() > 1 ? "taken by its fits" : "taken"};
  if (several) header.insert(header.begin(), "repeat");
  return body +
         html::paragraph(concat("What ", model_label(model), " took in each fold: ",
                                model.sequence_model.empty() ? "" : model.sequence_model + ", or ",
                                "a summary of every feature over the frames.")) +
         html::table(header, rows);
}

}  // namespace coldframe::temporal
