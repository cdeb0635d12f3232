// The figures of a report as a table, one a row, so that programs and papers take what they need.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/charts/html.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// `of`: model, column, group and what the figure is.
class FigureTable {
 public:
  using Of = std::vector<std::string>;
  void add(const Of& of, const std::string& figure, const Estimate& estimate);
  void add(const Of& of, const std::string& figure,
           double value);  // without an interval
  void add(const Of& of, const std::vector<MetricSummary>& summaries);
  std::string csv() const;

 private:
  std::string rows_;
};

// The report of a run with one target or several: each has its own figures; what they share is said
// once. With one target it reads as that target's TargetReport.

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

// The tables of a report's page, for a paper.

// Every table of a page as a LaTeX table environment, captioned by the heading of its section and
// labelled by number ("tab:1", …), with its notes below. They want the packages booktabs and
// graphicx, the latter because tables that are wider than the text are made smaller. Data tables
// (data_table.h) are too long for a paper.
std::string latex_tables(const html::Page& page);

// The drawings and tables of a report as files of their own, for a paper.

inline constexpr const char* kFiguresFolder = "figures";

// The tables of the page.
inline constexpr const char* kLatexFile = "tables.tex";

// Names and contents: roc.svg, decision_curve.svg, figures.csv and others as there are; with
// several targets behind the number of each ("2-roc.svg").
std::vector<std::pair<std::string, std::string>> report_files(const RunReport& run);

// Names that report_files() may give, drawings as SVG files, and kLatexFile.
bool is_report_file(const std::string& name);

}  // namespace coldframe::temporal
