#include "train_temporal/report/report_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "common/charts/svg.h"
#include "common/cli/progress.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

Estimate alone(const MetricValue& figure) {
  return {figure, MetricValue::none(""), MetricValue::none("")};
}

}  // namespace

void FigureTable::add(const Of& of, const std::string& figure, const Estimate& estimate) {
  std::vector<std::string> row = of;
  row.push_back(figure);
  for (const MetricValue* each : {&estimate.value, &estimate.low, &estimate.high})
    row.push_back(each->defined() ? exact(each->value) : "");
  row.push_back(estimate.value.defined() ? estimate.low.undefined : estimate.value.undefined);
  rows_ += csv_row(row);
}

void FigureTable::add(const Of& of, const std::string& figure, double value) {
  add(of, figure, alone(MetricValue::of(value)));
}

void FigureTable::add(const Of& of, const std::vector<MetricSummary>& summaries) {
  for (const MetricSummary& one : summaries) add(of, std::string(one.metric->key), one.primary());
}

std::string FigureTable::csv() const {
  return csv_row({"model", "column", "group", "what", "figure", "value", "low", "high", "note"}) +
         rows_;
}

namespace {

std::string macro_heading(const RunReport& run) {
  std::size_t binary = 0;
  for (const TargetReport& report : run.targets) binary += is_binary(report);
  return concat("Mean over the ", binary, " binary targets");
}

html::Body macro_section(const RunReport& run) {
  html::Rows rows;
  for (const ModelResult& model : run.macro) {
    for (const MetricSummary& summary : model.summary) {
      rows.push_back({model.name, concat("macro ", summary.metric->title),
                      interval_text(summary.mean_over_folds), interval_text(summary.pooled)});
    }
  }
  const MetricSummary& first = run.macro.front().summary.front();
  const std::string taken = first.per_fold.size() > 1
                                ? concat("mean over ", folds_of(first))
                                : folds_text(run.targets.front().models.front());
  return html::table({"model", "", taken, "all folds together"}, rows);
}

void add_sections(html::Page& page, const SectionBlock& block, const TargetReport& report,
                  const std::string& of) {
  block.visit([&](const Section& section) {
    if (!section.is_of(report)) return;
    if (section.page != nullptr) section.page(page, report, of);
    if (section.body == nullptr) return;
    if (html::Body body = section.body(report); !body.empty())
      page.section(concat(section.heading, of), std::move(body));
  });
}

}  // namespace

namespace {

// Figures know classes by their numbers only.
void name_classes(MetricValue& figure, const std::vector<std::string>& classes) {
  constexpr std::string_view kNumber = "class number ";
  const std::size_t at = figure.undefined.find(kNumber);
  if (at == std::string::npos) return;
  const std::size_t digits = at + kNumber.size();
  const std::size_t end =
      std::min(figure.undefined.find_first_not_of("0123456789", digits), figure.undefined.size());
  const std::size_t number = std::stoul(figure.undefined.substr(digits, end - digits));
  figure.undefined.replace(at, end - at, concat("class '", classes.at(number), "'"));
}

template <class Figure>
void name_classes_of_both(Figure& figure, const std::vector<std::string>& classes) {
  for (Estimate* one : {&figure.mean_over_folds, &figure.pooled})
    for (MetricValue* value : {&one->value, &one->low, &one->high}) name_classes(*value, classes);
}

void name_classes(std::vector<MetricSummary>& figures, const std::vector<std::string>& classes) {
  for (MetricSummary& figure : figures) {
    name_classes_of_both(figure, classes);
    for (MetricValue& value : figure.per_fold) name_classes(value, classes);
  }
}

void name_classes(TargetReport& report) {
  for (std::vector<ModelResult>* models : {&report.models, &report.in_order_and_shuffled}) {
    for (ModelResult& model : *models) {
      name_classes(model.summary, report.classes);
      for (PairedDifference& one : model.difference) name_classes_of_both(one, report.classes);
    }
  }
  for (SubgroupColumn& column : report.subgroups)
    for (Subgroup& group : column.groups) name_classes(group.summary, report.classes);
}

}  // namespace

void evaluate_report(RunReport& run) {
  std::size_t models = 0;
  for (const TargetReport& report : run.targets) models += report.models.size();
  Progress progress("figures with intervals", "models", models);
  std::vector<std::vector<MetricTable>> binary;  // [target][model]
  for (TargetReport& report : run.targets) {
    if (const auto level = report.questions.level)
      report.bootstrap.level = static_cast<double>(*level) / 100;
    std::vector<MetricTable> tables =
        evaluate_models(report.models, report.bootstrap.level, [&] { progress.add(); });
    for_sections(report, [&](const Section& section) {
      if (section.evaluate != nullptr) section.evaluate(report);
    });
    know_that_groups_differ(report);
    if (!report.in_order_and_shuffled.empty()) {
      TargetReport pair;
      static_cast<RunFacts&>(pair) = report;
      pair.models = std::move(report.in_order_and_shuffled);
      evaluate_models(pair.models, report.bootstrap.level);
      know_that_groups_differ(pair);
      report.in_order_and_shuffled = std::move(pair.models);
    }
    name_classes(report);
    if (run.targets.size() > 1 && is_binary(report)) binary.push_back(std::move(tables));
  }
  if (binary.size() < 2) return;
  for (std::size_t m = 0; m < binary.front().size(); ++m) {
    std::vector<MetricTable> of_targets;
    for (const auto& tables : binary) of_targets.push_back(tables[m]);
    ModelResult& model = run.macro.emplace_back();
    model.name = run.targets.front().models[m].name;
    model.summary = summarize(macro_table(of_targets));
  }
}

html::Page report_page(const RunReport& run) {
  const TargetReport& first = run.targets.front();
  html::Page page(first.title, first.subtitle);
  const auto of = [&](const TargetReport& report) {
    return run.targets.size() > 1 ? concat(" of '", report.target, "'") : std::string();
  };
  if (!run.macro.empty()) page.section(macro_heading(run), macro_section(run));
  for (const SectionBlock& block : kSectionBlocks) {
    for (const TargetReport& report : run.targets) {
      if (block.of_each_target)
        add_sections(page, block, report, of(report));
      else if (&report == &first)
        add_sections(page, block, report, "");
    }
  }
  return page;
}

Json metrics_json(const RunReport& run) {
  if (run.targets.size() == 1) return metrics_json(run.targets.front());
  Json json = {{"targets", Json::array()}};
  for (const TargetReport& report : run.targets) json["targets"].push_back(metrics_json(report));
  if (run.macro.empty()) return json;
  json["macro"] = Json::array();
  for (const ModelResult& model : run.macro) json["macro"].push_back(to_json(model));
  return json;
}

std::string summary_text(const RunReport& run) {
  std::string text;
  for (const TargetReport& report : run.targets) text += summary_text(report);
  if (run.macro.empty()) return text;
  text += macro_heading(run) + "\n";
  for (const ModelResult& model : run.macro) {
    for (const MetricSummary& summary : model.summary) {
      text += concat("  ", model.name, " macro ", summary.metric->title, " ",
                     interval_text(summary.mean_over_folds), " over ", folds_of(summary), "\n");
    }
  }
  return text;
}

namespace {

using Spelling = std::pair<std::string_view, std::string_view>;

// For what LaTeX reads as commands, and for letters that its fonts lack.
constexpr std::array kSpellings = {
    Spelling{"&", "\\&"},
    Spelling{"<", "\\textless{}"},
    Spelling{">", "\\textgreater{}"},
    Spelling{"\"", "''"},
    Spelling{"\\", "\\textbackslash{}"},
    Spelling{"{", "\\{"},
    Spelling{"}", "\\}"},
    Spelling{"%", "\\%"},
    Spelling{"$", "\\$"},
    Spelling{"#", "\\#"},
    Spelling{"_", "\\_"},
    Spelling{"^", "\\textasciicircum{}"},
    Spelling{"~", "\\textasciitilde{}"},
    Spelling{"\n", " "},
    Spelling{"\t", " "},
    Spelling{"−", "$-$"},
    Spelling{"≥", "$\\geq$"},
    Spelling{"≤", "$\\leq$"},
    Spelling{"²", "\\textsuperscript{2}"},
};

// "-0.1", "[-0.1": a sign, which is longer than a hyphen.
bool starts_negative(std::string_view text, const std::string& before) {
  const bool number = text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';
  return number && (before.empty() || before.ends_with(' ') || before.ends_with('['));
}

std::string spelt(std::string_view text) {
  std::string latex;
  while (!text.empty()) {
    if (starts_negative(text, latex)) {
      latex += "$-$";
      text.remove_prefix(1);
      continue;
    }
    const auto* found = std::ranges::find_if(
        kSpellings, [&](const Spelling& one) { return text.starts_with(one.first); });
    const bool any = found != kSpellings.end();
    const bool control = !any && static_cast<unsigned char>(text[0]) < ' ';
    latex += any ? found->second : text.substr(0, control ? 0 : 1);
    text.remove_prefix(any ? found->first.size() : 1);
  }
  return latex;
}

std::string line_of(const html::Row& cells) {
  std::vector<std::string> words;
  for (const std::string& cell : cells) words.push_back(spelt(cell));
  const std::string line = join(words, " & ");
  // A bracket or a star behind the end of a line would be read as its option.
  return concat("  ", line.starts_with('[') || line.starts_with('*') ? "{}" : "", line, " \\\\\n");
}

std::string latex_table(const html::Table& table, const std::string& caption, std::size_t number) {
  std::string columns, rows, notes;
  for (const bool numeric : table.numeric) columns += numeric ? 'r' : 'l';
  for (const html::Row& row : table.rows) rows += line_of(row);
  for (const std::string& note : table.notes)
    notes += concat("\\par\\footnotesize ", spelt(note), "\n");
  return concat(
      "\\begin{table}\n\\caption{", spelt(caption), "}\n\\label{tab:", number,
      "}\n\\centering\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}"
      "{!}{%\n\\begin{tabular}{",
      columns, "}\n  \\toprule\n", line_of(table.header), "  \\midrule\n", rows,
      "  \\bottomrule\n\\end{tabular}}\n", notes, "\\end{table}\n");
}

}  // namespace

std::string latex_tables(const html::Page& page) {
  std::string latex = "% \\usepackage{booktabs,graphicx}\n";
  std::size_t number = 0;
  for (const auto& [heading, table] : page.tables())
    latex += concat("\n", latex_table(table, heading, ++number));
  return latex;
}

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
