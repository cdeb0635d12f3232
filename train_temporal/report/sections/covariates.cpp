// The section on covariates: columns, how they are taken, and how many exams lack them.
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

std::string covariate_names(const RunReport& report) {
  std::string names;
  for (std::size_t i = 0; i < report.covariates.size(); ++i) {
    const bool last = i + 1 == report.covariates.size();
    names += concat(i == 0 ? "" : last ? " and " : ", ", report.covariates[i].name);
  }
  return names;
}

void add_covariates(html::Page& page, const RunReport& report) {
  if (report.covariates.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const CovariateFacts& one : report.covariates)
    rows.push_back({one.name, one.kind, concat(one.missing)});
  page.section(
      "Covariates",
      html::table({"column", "taken as", "exams without a value"}, rows) +
          paragraph(concat(
              report.frame_covariates
                  ? "They are behind the features of every frame. "
                  : "They are a linear term beside the head: what they add does not depend on the "
                    "images. ",
              "Numbers are standardised by the training part of each fold, categories are its own; "
              "a value that is missing is the mean, and known to be missing where the training "
              "part lacks some, too.")));
}

Json covariates_json(const RunReport& report) {
  Json json = {{"at", report.frame_covariates ? "frames" : "head"}, {"columns", Json::array()}};
  for (const CovariateFacts& one : report.covariates)
    json["columns"].push_back(
        {{"name", one.name}, {"kind", one.kind}, {"exams_without_value", one.missing}});
  return json;
}

}  // namespace coldframe::temporal
