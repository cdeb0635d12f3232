// The metrics of a report as a table, one per row, for programs and papers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/charts/html.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// `of`: model, column, group and kind of the metric.
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

// The report of a run with one or several targets: each has its own metrics; shared facts are
// stated once. With one target it equals that target's TargetReport.

struct RunReport {
  std::vector<TargetReport> targets;  // the first also holds shared facts: curves, configuration, …
  // Macro AUROC and AUPRC of each model over the binary targets; empty with fewer than two.
  std::vector<ModelResult> macro;
};
// Computes the metrics of all targets, and the macro averages.
void evaluate_report(RunReport& run);

html::Page report_page(const RunReport& run);
Json metrics_json(const RunReport& run);
std::string summary_text(const RunReport& run);  // ends with a line end

// The tables of a report's page, for a paper.

// Every table of a page as a LaTeX table environment, with the heading of its section as caption,
// numbered labels ("tab:1", …) and its notes below. Requires the packages booktabs and graphicx
// (which shrinks tables wider than the text). Data tables (data_table.h) are omitted: too long for
// a paper.
std::string latex_tables(const html::Page& page);

// The plots and tables of a report as separate files, for a paper.

inline constexpr const char* kFiguresFolder = "figures";

// The tables of the page.
inline constexpr const char* kLatexFile = "tables.tex";

// Names and contents: roc.svg, decision_curve.svg, figures.csv and others that apply; with several
// targets, prefixed by the target's number ("2-roc.svg").
std::vector<std::pair<std::string, std::string>> report_files(const RunReport& run);

// True for names that report_files() may return, with plots as SVG files, and for kLatexFile.
bool is_report_file(const std::string& name);

}  // namespace coldframe::temporal
