// The drawings and tables of a report as files of their own, for a paper.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train_temporal/report/run_report.h"

namespace coldframe::temporal {

inline constexpr const char* kFiguresFolder = "figures";

// The tables of the page.
inline constexpr const char* kLatexFile = "tables.tex";

// Names and contents: roc.svg, decision_curve.svg, figures.csv and others as there are; with
// several targets behind the number of each ("2-roc.svg").
std::vector<std::pair<std::string, std::string>> report_files(const RunReport& run);

// Names that report_files() may give, drawings as SVG files, and kLatexFile.
bool is_report_file(const std::string& name);

}  // namespace coldframe::temporal
