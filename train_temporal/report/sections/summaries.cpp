// What fits took of the frames: the summaries over time that `summary` chose, and what `auto` did.
#include <algorithm>
#include <functional>
#include <map>

#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

// The families of fits that are summaries: "slope in 4 of 5 fits, mean in 1".
std::string families_text(const ModelResult& model) {
  std::map<std::string, std::size_t> count;
  std::size_t all = 0;
  for (const auto& fold : model.families)
    for (const std::string& family : fold)
      if (family != kNoFamily) ++count[family], ++all;
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

}  // namespace

Taken taken_by(const ModelResult& model) {
  Taken taken;
  if (model.sequence_model.empty()) return taken;
  for (const auto& fold : model.families)
    for (const std::string& family : fold) ++taken.all, taken.summaries += family != kNoFamily;
  return taken;
}

std::string found_text(const ModelResult& model) {
  if (model.families.empty()) return "";
  if (model.sequence_model.empty()) return concat("; it took ", families_text(model));
  const auto [all, summaries] = taken_by(model);
  return concat("; it took a summary in ", summaries, " of ", plural(all, "fit"));
}

std::string taken_text(const ModelResult& model) {
  const auto [all, summaries] = taken_by(model);
  if (all == 0) return "";
  std::vector<std::string> parts;
  const auto add = [&](const std::string& what, std::size_t fits) {
    if (fits > 0) parts.push_back(concat(what, " in ", fits, " of ", plural(all, "fit")));
  };
  add(model.sequence_model, all - summaries);
  add("a summary of the frames", summaries);
  const std::string of = summaries > 0 ? concat(" (", families_text(model), ")") : "";
  return concat(model.name, " took ", join(parts, " and "), of,
                ". A fit takes a summary that found something, unless ", model.sequence_model,
                " is clearly better on the validation part.");
}

html::Body families_table(const ModelResult& model) {
  html::Body body;
  if (const std::string taken = taken_text(model); !taken.empty()) body += html::paragraph(taken);
  if (model.families.empty() || model.folds.size() < 2) return body;
  html::Rows rows;
  for (std::size_t f = 0; f < model.families.size(); ++f) {
    std::vector<std::string> fits = model.families[f];
    std::ranges::replace(fits, std::string(kNoFamily), model.sequence_model);
    rows.push_back({concat(model.folds[f].repeat), concat(model.folds[f].fold), join(fits, ", ")});
  }
  const std::string& other = model.sequence_model;
  return body +
         html::paragraph(concat("What each fold took of every feature over the frames, for ",
                                model_label(model),
                                other.empty() ? ":" : concat(", or ", other, ":"))) +
         html::table({"repeat", "fold", "taken"}, rows);
}

}  // namespace coldframe::temporal
