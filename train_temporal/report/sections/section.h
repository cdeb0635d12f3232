// A section of the report is an object, from its figures to its place on the page, in summary.json,
// on the terminal and among the files. A new one is a file with its Section, and a line in
// sections.cpp.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "common/charts/html.h"
#include "train_temporal/report/figure_table.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// A file of its own: a drawing, as HTML, or a table, as CSV.
struct SectionFile {
  std::string_view name = {};  // without ending; empty: there is no file
  std::string (*content)(const TargetReport&) = nullptr;
};

struct Section {
  std::string_view heading;
  bool (*applies)(const TargetReport&) = nullptr;      // null: always
  std::string (*body)(const TargetReport&) = nullptr;  // of the page
  // In place of both: several sections. `of`: what headings add to tell targets apart.
  void (*page)(html::Page&, const TargetReport&, const std::string& of) = nullptr;
  void (*evaluate)(TargetReport&) = nullptr;  // computes figures that it alone has
  void (*json)(Json& summary, const TargetReport&) = nullptr;
  std::string (*text)(const TargetReport&) = nullptr;  // lines of the terminal
  void (*figures)(FigureTable&, const TargetReport&) = nullptr;
  std::array<SectionFile, 2> drawings = {}, tables = {};  // those without a name are none

  bool is_of(const TargetReport& report) const { return applies == nullptr || applies(report); }
};

// Sections that stand together: those of each target, or those of the whole run, which the first
// target's report has.
struct SectionBlock {
  bool of_each_target;
  std::span<const Section* const> sections;
};
std::span<const SectionBlock> section_blocks();

// Calls `take` with every section that applies to the report of a target.
template <class Take>
void for_sections(const TargetReport& report, const Take& take) {
  for (const SectionBlock& block : section_blocks())
    for (const Section* section : block.sections)
      if (section->is_of(report)) take(*section);
}

}  // namespace coldframe::temporal
