// The run as a whole: its options, time and memory.
#include "common/charts/html.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
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
         return html::key_values(report.resources);
       }}};
  return kSections;
}

}  // namespace coldframe::temporal
