// The section on covariates: columns, how they are taken, and how many exams lack them.
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

std::string covariate_names(const TargetReport& report) {
  std::string names;
  for (std::size_t i = 0; i < report.covariates.size(); ++i) {
    const bool last = i + 1 == report.covariates.size();
    names += concat(i == 0 ? "" : last ? " and " : ", ", report.covariates[i].name);
  }
  return names;
}

namespace {

html::Body covariates_section(const TargetReport& report) {
  html::Rows rows;
  for (const CovariateFacts& one : report.covariates)
    rows.push_back({one.name, one.kind, concat(one.missing)});
  return html::table({"column", "taken as", "exams without a value"}, rows) +
         html::paragraph(
             concat(report.frame_covariates ? "They are behind the features of every frame. "
                                            : "They are a linear term beside the head: what "
                                              "they add does not depend on the images. ",
                    "Numbers are standardised by the training part of each fold, categories "
                    "are its own; a value that is missing is the mean, and known to be "
                    "missing where the training part lacks some, too."));
}

void add_covariates(Json& summary, const TargetReport& report) {
  Json& json = summary["covariates"] = {{"at", report.frame_covariates ? "frames" : "head"},
                                        {"columns", Json::array()}};
  for (const CovariateFacts& one : report.covariates)
    json["columns"].push_back(
        {{"name", one.name}, {"kind", one.kind}, {"exams_without_value", one.missing}});
}

}  // namespace

std::span<const Section> covariate_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Covariates",
       .applies = [](const TargetReport& report) { return !report.covariates.empty(); },
       .body = covariates_section,
       .json = add_covariates}};
  return kSections;
}

}  // namespace coldframe::temporal
