// What the control `summary` found: the summaries over time that it chose.
#include <algorithm>
#include <functional>
#include <map>

#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

std::string families_text(const ModelResult& model) {
  std::map<std::string, std::size_t> count;
  std::size_t all = 0;
  for (const auto& fold : model.families)
    for (const std::string& family : fold) ++count[family], ++all;
  if (count.size() == 1)
    return concat(count.begin()->first, " in ", all == 1 ? "its" : "each", " fit");
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const auto& [family, fits] : count) ranked.emplace_back(fits, family);
  std::ranges::sort(ranked, std::greater{});
  std::vector<std::string> parts;
  for (const auto& [fits, family] : ranked)
    parts.push_back(
        concat(family, " in ", fits, parts.empty() ? concat(" of ", plural(all, "fit")) : ""));
  return join(parts, ", ");
}

std::string found_text(const ModelResult& model) {
  if (model.families.empty()) return "";
  if (model.name == "summary") return concat("; it took ", families_text(model));
  std::size_t all = 0, taken = 0;
  for (const auto& fold : model.families)
    for (const std::string& family : fold) ++all, taken += family != kNoFamily;
  return concat("; a summary took its place in ", taken, " of ", plural(all, "fit"));
}

std::string taken_text(const ModelResult& model) {
  if (model.families.empty() || model.name == "summary") return "";
  return concat("A summary of the frames took the place of ", model.name,
                ", which was not clearly better on the validation part (", kNoFamily,
                ": fits where it was): ", families_text(model), ".");
}

html::Body families_table(const TargetReport& report) {
  html::Body body;
  for (const ModelResult& model : report.models) {
    if (model.families.empty()) continue;
    html::Rows rows;
    for (std::size_t f = 0; f < model.families.size(); ++f)
      rows.push_back({concat(model.folds[f].repeat), concat(model.folds[f].fold),
                      join(model.families[f], ", ")});
    if (const std::string taken = taken_text(model); !taken.empty()) body += html::paragraph(taken);
    body += html::paragraph(concat("Each fold chose, for ", model_label(model),
                                   ", what to take of every feature over the frames:")) +
            html::table({"repeat", "fold", "of every feature"}, rows);
  }
  return body;
}

}  // namespace coldframe::temporal
