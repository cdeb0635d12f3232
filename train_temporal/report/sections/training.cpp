// The training: how far a cohort lies from its exams, what --search took, and losses.
#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

std::string shift_section(const TargetReport& report) {
  html::Rows rows;
  for (const CohortShift& shift : report.shift) {
    rows.push_back({shift.trait, concat(shift.flagged, " of ", shift.judged),
                    shift.judged > 0 ? fixed(shift.median_rank, 3) : std::string("–")});
  }
  return html::table({"", "unlike the training data", "median rank"}, rows) +
         html::paragraph(concat(
             "Each exam is ranked by its distance from the training's among the exams "
             "that the training held out: of a cohort like it ",
             fixed(100 * report.shift_rate, 0), " % are unlike, and the median rank is 0.5."));
}

void add_shift(Json& summary, const TargetReport& report) {
  Json& json = summary["shift"] = {{"rate", report.shift_rate}};
  for (const CohortShift& shift : report.shift) {
    Json& entry = json[shift.trait] = {{"exams", shift.judged}, {"flagged", shift.flagged}};
    if (shift.judged > 0) entry["median_rank"] = shift.median_rank;
  }
}

bool searched(const TargetReport& report) {
  return !report.choices.empty() && !report.choices.front().setting.is_null();
}

std::string search_section(const TargetReport& report) {
  std::vector<std::string> header = {"repeat", "fold"};
  for (const auto& [option, value] : report.choices.front().setting.items())
    header.push_back(option);
  html::Rows rows;
  for (const FoldChoice& choice : report.choices) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {concat(choice.repeat), concat(choice.fold)};
    for (const auto& [option, value] : choice.setting.items())
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return html::paragraph(
             "Each fold took, by its validation part alone, this one of the settings that were "
             "tried (search.csv has all):") +
         html::table(header, rows);
}

}  // namespace

std::span<const Section> training_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Shift against the training cohort",
       .applies = [](const TargetReport& report) { return !report.shift.empty(); },
       .body = shift_section,
       .json = add_shift},
      {.heading = "Search",
       .applies = searched,
       .body = search_section,
       .text =
           [](const TargetReport& report) {
             std::vector<Json> settings;
             for (const FoldChoice& choice : report.choices) settings.push_back(choice.setting);
             return concat("Search took ", search_text(settings), ".\n");
           }},
      {.heading = "Training", .body = loss_charts}};
  return kSections;
}

}  // namespace coldframe::temporal
