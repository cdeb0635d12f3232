// The report of a run with one target or several: each has its own figures; what they share is said
// once. With one target it reads as that target's TargetReport.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

struct RunReport {
  std::vector<TargetReport>
      targets;  // the first also says what all share: curves, configuration, …
  // Macro AUROC and AUPRC of each model over the binary targets; empty with fewer than two.
  std::vector<ModelResult> macro;
};
// Fills the figures of all targets, and the macro ones.
void evaluate_report(RunReport& run);

html::Page report_page(const RunReport& run);
Json metrics_json(const RunReport& run);
std::string summary_text(const RunReport& run);  // ends with a line end

}  // namespace coldframe::temporal
