// The main model's figures on the exams of each value of a column.
#include <algorithm>

#include "common/text/printable.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

const MetricSummary* main_figure(const TargetReport& report, const Subgroup& group) {
  return find_metric(group.summary, main_metric(report.scale));
}

std::string ahead_text(const TargetReport& report, const Subgroup& group) {
  const MetricSummary* main = main_figure(report, group);
  if (main == nullptr || group.minus_others.empty()) return "–";
  return difference_text(group.minus_others[static_cast<std::size_t>(main - group.summary.data())]);
}

html::Body counts_table(const TargetReport& report, const SubgroupColumn& column) {
  std::vector<std::string> header = {column.column, rows_name(report), "patients"};
  header.insert(header.end(), report.classes.begin(), report.classes.end());
  header.push_back(concat(main_metric(report.scale)->title, " − that of the others"));
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
    rows.push_back({std::string(all[m].metric->title)});
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
  return concat("Too few to say anything of the ", main_metric(report.scale)->title, ": ",
                join(small, ", "), ".");
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
    text += concat(main_metric(report.scale)->title, " by ", column.column,
                   ", and ahead of the others by\n");
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

}  // namespace coldframe::temporal
