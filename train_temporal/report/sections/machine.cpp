// The charts of memory and load while a run trained (--monitor).
#include <algorithm>
#include <cmath>

#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

constexpr double kMebibyte = 1 << 20;

void add_series(html::Chart& chart, const char* name, const MachineLoad& machine,
                const std::vector<double>& values, double unit) {
  if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return;
  html::Series series;
  series.name = name;
  series.x = machine.time_s;
  for (const double value : values) series.y.push_back(value / unit);
  chart.series.push_back(std::move(series));
}

}  // namespace

std::string machine_charts(const RunReport& report) {
  const MachineLoad& machine = report.machine;
  if (machine.time_s.empty()) return {};
  html::Chart memory, load;
  memory.title = "Memory while training";
  memory.y_label = "MiB";
  add_series(memory, "of the process", machine, machine.resident_bytes, kMebibyte);
  add_series(memory, "of the GPU", machine, machine.gpu_bytes, kMebibyte);
  load.title = "Load while training";
  load.y_label = "%";
  add_series(load, "CPU, of one core", machine, machine.cpu_percent, 1);
  add_series(load, "GPU", machine, machine.gpu_percent, 1);
  memory.x_label = load.x_label = "seconds";
  return html::line_chart(memory) + html::line_chart(load);
}

}  // namespace coldframe::temporal
