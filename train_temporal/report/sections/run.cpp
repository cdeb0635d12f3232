// The run as a whole: how far a cohort lies from the training's, its options, time and memory.
#include <algorithm>
#include <cmath>

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

constexpr double kMebibyte = 1 << 20;

void add_series(html::Chart& chart, const char* name, const MachineLoad& machine,
                const std::vector<double>& values, double unit) {
  if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return;
  html::Series series{name, machine.time_s};
  for (const double value : values) series.y.push_back(value / unit);
  chart.series.push_back(std::move(series));
}

// Memory and load while it trained (--monitor).
std::string machine_charts(const TargetReport& report) {
  const MachineLoad& machine = report.machine;
  if (machine.time_s.empty()) return {};
  html::Chart memory{"Memory while training", "seconds", "MiB"};
  html::Chart load{"Load while training", "seconds", "%"};
  add_series(memory, "of the process", machine, machine.resident_bytes, kMebibyte);
  add_series(memory, "of the GPU", machine, machine.gpu_bytes, kMebibyte);
  add_series(load, "CPU, of one core", machine, machine.cpu_percent, 1);
  add_series(load, "GPU", machine, machine.gpu_percent, 1);
  return html::line_chart(memory) + html::line_chart(load);
}

}  // namespace

constexpr Section kTrainingSection = {.heading = "Training", .body = loss_charts};
constexpr Section kShiftSection = {
    .heading = "Shift against the training cohort",
    .applies = [](const TargetReport& report) { return !report.shift.empty(); },
    .body = shift_section,
    .json = add_shift};
constexpr Section kConfigurationSection = {
    .heading = "Configuration",
    .applies = [](const TargetReport& report) { return !report.configuration.empty(); },
    .body = [](const TargetReport& report) { return html::key_values(report.configuration); }};
constexpr Section kFeaturesSection = {
    .heading = "Features",
    .applies = [](const TargetReport& report) { return !report.recipe.empty(); },
    .body = [](const TargetReport& report) { return html::key_values(report.recipe); }};
constexpr Section kResourcesSection = {
    .heading = "Time and memory",
    .applies = [](const TargetReport& report) { return !report.resources.empty(); },
    .body =
        [](const TargetReport& report) {
          return html::key_values(report.resources) + machine_charts(report);
        }};

}  // namespace coldframe::temporal
