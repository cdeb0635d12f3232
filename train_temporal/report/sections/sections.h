// A section of the report is an object: it defines its metrics and its output on the page, in
// summary.json, on the terminal and in files. A new section is a row in the file of its kind; a new
// file is a line in both parts of the list below.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/charts/html.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/report_files.h"

namespace coldframe::temporal {

// An output file of a section: a plot (as HTML) or a table (as CSV).
struct SectionFile {
  std::string_view name = {};  // without ending; empty: there is no file
  std::string (*content)(const TargetReport&) = nullptr;
};

struct Section {
  std::string_view heading;
  bool (*applies)(const TargetReport&) = nullptr;     // null: always
  html::Body (*body)(const TargetReport&) = nullptr;  // of the page
  // Replaces both for several sections. `of`: suffix of headings that identifies the target.
  void (*page)(html::Page&, const TargetReport&, const std::string& of) = nullptr;
  void (*evaluate)(TargetReport&) = nullptr;  // computes metrics of this section only
  void (*json)(Json& summary, const TargetReport&) = nullptr;
  std::string (*text)(const TargetReport&) = nullptr;  // lines for the terminal
  void (*figures)(FigureTable&, const TargetReport&) = nullptr;
  std::array<SectionFile, 2> drawings = {}, tables = {};  // unused if unnamed

  bool is_of(const TargetReport& report) const { return applies == nullptr || applies(report); }
};

// The sections of each file, in the order of the page.
std::span<const Section> result_sections();
std::span<const Section> class_sections();
std::span<const Section> model_sections();
std::span<const Section> survival_sections();
std::span<const Section> number_sections();
std::span<const Section> curve_sections();
std::span<const Section> decision_sections();
std::span<const Section> threshold_sections();
std::span<const Section> operating_sections();
std::span<const Section> set_sections();
std::span<const Section> subgroup_sections();
std::span<const Section> contribution_sections();
std::span<const Section> gallery_sections();
std::span<const Section> training_sections();
std::span<const Section> data_sections();
std::span<const Section> cohort_sections();
std::span<const Section> covariate_sections();
std::span<const Section> run_sections();

// A block of sections: for each target, or for the whole run (from the first target's report).
struct SectionBlock {
  bool of_each_target;
  std::initializer_list<std::span<const Section> (*)()> files;

  template <class Take>
  void visit(const Take& take) const {
    for (const auto sections : files)
      for (const Section& section : sections()) take(section);
  }
};
inline constexpr SectionBlock kSectionBlocks[] = {
    {true,
     {result_sections, class_sections, model_sections, survival_sections, number_sections,
      curve_sections, decision_sections, threshold_sections, operating_sections, subgroup_sections,
      set_sections}},
    {false, {contribution_sections, gallery_sections, training_sections}},
    {true, {data_sections, cohort_sections}},
    {false, {covariate_sections, run_sections}}};

// Calls `take` with every section that applies to the report of a target.
template <class Take>
void for_sections(const TargetReport& report, const Take& take) {
  for (const SectionBlock& block : kSectionBlocks)
    block.visit([&](const Section& section) {
      if (section.is_of(report)) take(section);
    });
}

inline constexpr std::size_t kMaxLines = 8;               // number of colours of a chart
std::string model_roc_chart(const TargetReport& report);  // "" of one model; curves.cpp
std::string covariate_names(const TargetReport& report);  // "age and sex"
// Widens intervals by the variance between groups if groups are held out one at a time; result.cpp.
void know_that_groups_differ(TargetReport& report);
std::string groups_text(const TargetReport& report);  // "3 groups of 'site'"
void warn_of_groups(const TargetReport& report, std::vector<std::string>& warnings);
// The strongest column or property of the files that predicts the label without images, and what to
// do about it; "" if none does. cohort.cpp
std::string confound_sentence(const TargetReport& report);
// The number of fits of `auto`, or of its twin, and how many of them chose a summary; 0 for others.
struct Taken {
  std::size_t all = 0, summaries = 0;
};
Taken taken_by(const ModelResult& model);  // result.cpp
// The families of fits that are summaries: "slope in 4 of 5 fits, mean in 1".
std::string families_text(const ModelResult& model);
// Appended to the metrics of a control: "; it took slope in each fit"; "" without summaries.
std::string found_text(const ModelResult& model);
// What the fits of `auto` chose, and why; "" for others.
std::string taken_text(const ModelResult& model);
// The same, and the choices of `auto` or `summary` fold by fold.
html::Body families_table(const ModelResult& model);

}  // namespace coldframe::temporal
