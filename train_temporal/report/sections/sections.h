// The sections of report.html, of one target or of the whole run; those that rest on figures of
// their own compute them, and say them in summary.json and on the terminal.
#pragma once

#include <string>
#include <vector>

#include "common/charts/html.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// `of`: what the headings add to tell targets apart, " of 'age'" or nothing.
void add_result(html::Page& page, const RunReport& report, const std::string& of);
// Fills the AUROCs by DeLong of all models; operating.cpp.
void add_delong(std::vector<ModelResult>& models, double level);
// Fills what report.questions ask for.
void evaluate_operating_points(RunReport& report);
void add_operating_points(html::Page& page, const RunReport& report, const std::string& of);
Json operating_json(const RunReport& report);
std::string operating_text(const RunReport& report);
// Times to an event have these; survival.cpp.
void evaluate_survival(RunReport& report);
void add_survival(html::Page& page, const RunReport& report, const std::string& of);
Json survival_json(const RunReport& report);
std::string survival_summary(const RunReport& report);
// Fills the groups of each column; subgroups.cpp.
void evaluate_subgroups(RunReport& report);
void add_subgroups(html::Page& page, const RunReport& report, const std::string& of);
Json subgroups_json(const RunReport& report);
std::string subgroups_text(const RunReport& report);
// The flow of exams and the table of characteristics; cohort.cpp.
void add_cohort(html::Page& page, const RunReport& report, const std::string& of);
Json characteristics_json(const RunReport& report);
// The covariates; covariates.cpp.
void add_covariates(html::Page& page, const RunReport& report);
Json covariates_json(const RunReport& report);
std::string covariate_names(const RunReport& report);  // "age and sex"
void add_shift(html::Page& page, const RunReport& report);
void add_data(html::Page& page, const RunReport& report, const std::string& of);
// The charts of the machine; machine.cpp.
std::string machine_charts(const RunReport& report);
void add_run(html::Page& page, const RunReport& report);

}  // namespace coldframe::temporal
