#include "train_temporal/report/report_files.h"

#include <algorithm>
#include <array>
#include <functional>

#include "common/charts/svg_file.h"
#include "common/text/text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

constexpr const char* kFigureTable = "figures";

using Files = std::vector<std::pair<std::string, std::string>>;

Files files_of(const TargetReport& report) {
  Files files;
  FigureTable figures;
  for_sections(report, [&](const Section& section) {
    const auto add = [&](const SectionFile& file, const char* ending, const auto& written) {
      const std::string content = file.name.empty() ? "" : file.content(report);
      if (!content.empty()) files.emplace_back(concat(file.name, ending), written(content));
    };
    for (const SectionFile& drawing : section.drawings) add(drawing, ".svg", html::svg_file);
    for (const SectionFile& table : section.tables) add(table, ".csv", std::identity());
    if (section.figures != nullptr) section.figures(figures, report);
  });
  files.emplace_back(concat(kFigureTable, ".csv"), figures.csv());
  return files;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> report_files(const RunReport& run) {
  Files files;
  for (std::size_t t = 0; t < run.targets.size(); ++t) {
    for (auto& [name, content] : files_of(run.targets[t]))
      files.emplace_back(run.targets.size() > 1 ? concat(t + 1, "-", name) : name,
                         std::move(content));
  }
  return files;
}

bool is_report_file(const std::string& name) {
  const auto is_of = [](std::array<SectionFile, 2> Section::*files, const std::string& stem) {
    bool known = false;
    for (const SectionBlock& block : kSectionBlocks)
      block.visit([&](const Section& section) {
        known = known || std::ranges::count(section.*files, stem, &SectionFile::name) > 0;
      });
    return known && !stem.empty();
  };
  const auto dot = name.rfind('.');
  if (dot == name.npos || name == kLatexFile) return name == kLatexFile;
  const std::string ending = name.substr(dot);
  std::string stem = name.substr(0, dot);
  if (const auto dash = stem.find('-'); dash != stem.npos && is_number(stem.substr(0, dash)))
    stem.erase(0, dash + 1);  // of the target
  if (ending == ".csv") return stem == kFigureTable || is_of(&Section::tables, stem);
  return ending == ".svg" && is_of(&Section::drawings, stem);
}

}  // namespace coldframe::temporal
