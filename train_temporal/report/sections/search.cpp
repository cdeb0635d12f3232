// What each fold took of the settings that --search tried.
#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

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

constexpr Section kSearchSection = {.heading = "Search",
                                    .applies = searched,
                                    .body = search_section,
                                    .text = [](const TargetReport& report) {
                                      std::vector<Json> settings;
                                      for (const FoldChoice& choice : report.choices)
                                        settings.push_back(choice.setting);
                                      return concat("Search took ", search_text(settings), ".\n");
                                    }};

}  // namespace coldframe::temporal
