// A section of the report is an object, from its figures to its place on the page, in summary.json,
// on the terminal and among the files. A new one is a row in the file of its kind; a new file is a
// line in both parts of the list below.
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

// A file of its own: a drawing, as HTML, or a table, as CSV.
struct SectionFile {
  std::string_view name = {};  // without ending; empty: there is no file
  std::string (*content)(const TargetReport&) = nullptr;
};

struct Section {
  std::string_view heading;
  bool (*applies)(const TargetReport&) = nullptr;     // null: always
  html::Body (*body)(const TargetReport&) = nullptr;  // of the page
  // In place of both: several sections. `of`: what headings add to tell targets apart.
  void (*page)(html::Page&, const TargetReport&, const std::string& of) = nullptr;
  void (*evaluate)(TargetReport&) = nullptr;  // computes figures that only this section has
  void (*json)(Json& summary, const TargetReport&) = nullptr;
  std::string (*text)(const TargetReport&) = nullptr;  // lines of the terminal
  void (*figures)(FigureTable&, const TargetReport&) = nullptr;
  std::array<SectionFile, 2> drawings = {}, tables = {};  // those without a name are none

  bool is_of(const TargetReport& report) const { return applies == nullptr || applies(report); }
};

// The sections of one file each, and all in the order of the page.
std::span<const Section> result_sections();
std::span<const Section> survival_sections();
std::span<const Section> number_sections();
std::span<const Section> curve_sections();
std::span<const Section> decision_sections();
std::span<const Section> threshold_sections();
std::span<const Section> operating_sections();
std::span<const Section> subgroup_sections();
std::span<const Section> contribution_sections();
std::span<const Section> gallery_sections();
std::span<const Section> training_sections();
std::span<const Section> data_sections();
std::span<const Section> cohort_sections();
std::span<const Section> covariate_sections();
std::span<const Section> run_sections();

// Sections that stand together: those of each target, or those of the whole run, which the first
// target's report has.
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
     {result_sections, survival_sections, number_sections, curve_sections, decision_sections,
      threshold_sections, operating_sections, subgroup_sections}},
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

inline constexpr std::size_t kMaxLines = 8;               // as many colours as a chart has
std::string model_roc_chart(const TargetReport& report);  // "" of one model; curves.cpp
std::string covariate_names(const TargetReport& report);  // "age and sex"
// Where groups are held out one at a time: intervals know that groups differ; result.cpp.
void know_that_groups_differ(TargetReport& report);
std::string groups_text(const TargetReport& report);  // "3 groups of 'site'"
void warn_of_groups(const TargetReport& report, std::vector<std::string>& warnings);
// The fits of `auto`, or of a twin of it, and how many of them are summaries; of others none.
struct Taken {
  std::size_t all = 0, summaries = 0;
};
Taken taken_by(const ModelResult& model);  // result.cpp
// Behind the figures of a control: "; it took slope in each fit"; "" of those without summaries.
std::string found_text(const ModelResult& model);
// What the fits of `auto` took, and why; "" of others.
std::string taken_text(const ModelResult& model);
// The same and, fold by fold, what was taken by `auto` or `summary`.
html::Body families_table(const ModelResult& model);

}  // namespace coldframe::temporal
