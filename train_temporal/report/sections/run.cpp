// The run as a whole: its options, time and memory.
#include <algorithm>
#include <cmath>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

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

std::span<const Section> run_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Configuration",
       .applies = [](const TargetReport& report) { return !report.configuration.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.configuration);
       }},
      {.heading = "Features",
       .applies = [](const TargetReport& report) { return !report.recipe.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.recipe);
       }},
      {.heading = "Time and memory",
       .applies = [](const TargetReport& report) { return !report.resources.empty(); },
       .body = [](const TargetReport& report) -> html::Body {
         return html::key_values(report.resources) + machine_charts(report);
       }}};
  return kSections;
}

}  // namespace coldframe::temporal
