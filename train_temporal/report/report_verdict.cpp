// The figures become plain words here.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

// Differences of the main figure up to here are too small to matter.
constexpr double kMargin = 0.05;

// Two models are equal where the interval of their difference lies within the margin; one that
// reaches from no difference to one that matters decides nothing.
enum class Comparison { kBetter, kEqual, kUndecided, kWorse };

// Fits differ by chance beyond that among patients, and a verdict makes several claims at once: of
// noise, claims by 95 % intervals were wrong once in thirty times. They take intervals of 99 %.
// Both are false where there is no interval, of which the bounds are not numbers.
bool is_above(const Estimate& estimate, double bound) {
  return estimate.claim_low > bound;
}
bool is_below(const Estimate& estimate, double bound) {
  return estimate.claim_high < bound;
}

// A difference that is certainly too small to matter is none, whatever its sign.
Comparison compare(const Estimate& difference) {
  if (!difference.low.defined()) return Comparison::kUndecided;
  const bool within = difference.low.value > -kMargin && difference.high.value < kMargin;
  if (within) return Comparison::kEqual;
  if (is_above(difference, 0)) return Comparison::kBetter;
  return is_below(difference, 0) ? Comparison::kWorse : Comparison::kUndecided;
}

// "AUROC", "quadratic kappa", "R²": as it stands within a sentence.
std::string main_name(const RunReport& report) {
  const std::string title(metric_title(main_metric(report.scale)));
  return report.scale == Scale::kOrdinal ? lower(title) : title;
}

// A control with its main figure and how far the main model is ahead of it.
struct Control {
  Estimate figure, ahead;
  Comparison main_is = Comparison::kUndecided;
  bool found = false;
};

Control find_control(const RunReport& report, const std::string& name) {
  for (const ModelResult& model : report.models) {
    const MetricSummary* figure = find_metric(model, main_metric(report.scale));
    const PairedDifference* ahead = find_difference(model, main_metric(report.scale));
    if (model.name != name || figure == nullptr || ahead == nullptr) continue;
    if (!ahead->primary().value.defined()) continue;
    return {figure->primary(), ahead->primary(), compare(ahead->primary()), true};
  }
  return {};
}

const std::string kMarginText = concat("±", fixed(kMargin, 2));

const char* on_patients(Seen seen) {
  switch (seen) {
    case Seen::kNone:
      return "On patients that it has not seen, ";
    case Seen::kSome:
      return "On patients of whom some may have taken part in its training, ";
    case Seen::kUnknown:
      break;
  }
  return "On patients of whom it is not known whether they took part in its training, ";
}

std::string about_the_model(const RunReport& report) {
  const ModelResult& model = report.models.front();
  const MetricSummary* figure = find_metric(model, main_metric(report.scale));
  const std::string name = main_name(report);
  if (figure == nullptr || !figure->primary().value.defined()) {
    const bool classes = report.scale == Scale::kNominal;
    return concat("The ", name, " of ", model.name, " is undefined: no held-out part has ",
                  classes ? "all classes."
                  : report.scale == Scale::kTime
                      ? "an exam that is followed beyond another's event."
                      : "labels that differ.");
  }
  const Estimate& estimate = figure->primary();
  const double chance = chance_level(main_metric(report.scale));
  std::string text =
      concat(on_patients(report.seen), model.name, " reaches ",
             report.scale == Scale::kOrdinal || report.scale == Scale::kTime ? "a " : "an ", name,
             " of ", interval_text(estimate), " (", origin_text(model, *figure), ").");
  if (!estimate.low.defined()) {
    return text + " Without an interval, nothing can be said of what it has learnt.";
  }
  if (is_above(estimate, chance)) return text;
  if (is_below(estimate, chance) && ranks_across_folds(model, *figure)) {
    return text + concat(" That is below ", chance, ", where folds ranked together put noise as ",
                         "well: nothing shows that it has learnt anything, so its controls cannot ",
                         "tell what carries the result.");
  }
  if (is_below(estimate, chance))
    return text + concat(" That is worse than chance (", chance, ").");
  if (estimate.low.value > chance || estimate.high.value < chance) {
    return text + concat(" At 99 % its interval includes ", chance, ": that is too weak for its ",
                         "controls to tell what carries the result.");
  }
  return text + concat(" The interval includes ", chance, ": nothing shows that it has learnt ",
                       "anything, so its controls cannot tell what carries the result.");
}

std::string about_order(const std::string& name, const std::string& main, const Control& shuffled) {
  const std::string figures = concat(name, " with shuffled frames ", interval_text(shuffled.figure),
                                     ", difference ", difference_text(shuffled.ahead));
  switch (shuffled.main_is) {
    case Comparison::kBetter:
      return concat("The order of frames carries part of the result: ", main,
                    " loses when it is trained and tested on shuffled frames (", figures, ").");
    case Comparison::kWorse:
      return concat("The order of frames does not carry the result: ", main,
                    " does better on shuffled frames (", figures, ").");
    case Comparison::kEqual:
      return concat("The order of frames does not carry the result: ", main,
                    " does as well, within ", kMarginText, ", on shuffled frames (", figures, ").");
    case Comparison::kUndecided:
      break;
  }
  return concat("Whether the order of frames carries part of the result is undecided: ", main,
                " on shuffled frames may do as well or differ by more than ", kMarginText, " (",
                figures, ").");
}

std::string single_text(const RunReport& report) {
  if (report.per_frame) return "Each frame by itself";
  const auto single = std::ranges::find(report.models, "single", &ModelResult::name);
  const bool named = single != report.models.end() && !single->frame.empty();
  if (named && single->frame == "best") return "The best of the first, middle and last frame";
  return concat("The ", named ? single->frame : "middle", " frame");
}

// `what`: "The middle frame", "Each frame by itself" or "The mean of the frames".
std::string about_baseline(const std::string& name, const std::string& main,
                           const std::string& what, const Control& baseline) {
  const std::string figures = concat(name, " ", interval_text(baseline.figure), ", difference ",
                                     difference_text(baseline.ahead));
  switch (baseline.main_is) {
    case Comparison::kBetter:
      return concat(what, " gives less than ", main, " (", figures, ").");
    case Comparison::kWorse:
      return concat(what, " gives more than ", main, " (", figures, "): prefer it.");
    case Comparison::kEqual:
      return concat(what, " does as well as ", main, ", within ", kMarginText, " (", figures, ").");
    case Comparison::kUndecided:
      break;
  }
  return concat("Whether ", lower(what.substr(0, 1)), what.substr(1), " does as well as ", main,
                " is undecided (", figures, ").");
}

std::string about_blank(const RunReport& report, const Control& blank) {
  const std::string& main = report.models.front().name;
  const std::string rest =
      report.covariates.empty() ? "times and length" : "times, length and covariates";
  const std::string figures = concat(main_name(report), " of it ", interval_text(blank.figure),
                                     ", difference ", difference_text(blank.ahead));
  switch (blank.main_is) {
    case Comparison::kBetter:
      return concat("The features carry part of the result: ", main, " without them, with ", rest,
                    " alone, does worse (", figures, ").");
    case Comparison::kWorse:
      return concat("The features do not carry the result: ", main, " without them, with ", rest,
                    " alone, does better (", figures, ").");
    case Comparison::kEqual:
      return concat("The features do not carry the result: ", main, " without them, with ", rest,
                    " alone, does as well, within ", kMarginText, " (", figures, ").");
    case Comparison::kUndecided:
      break;
  }
  return concat("Whether the features carry the result is undecided: ", main,
                " without them, with ", rest, " alone, may do as well (", figures, ").");
}

// An interval of which a part lies below 0 leaves the ViT as it was: features that are tuned cost
// more, and must be computed anew.
std::string about_tuning(const std::string& name, const std::string& main, const Control& frozen,
                         bool learnt) {
  const std::string figures =
      concat(name, " of ", main, " on frozen features ", interval_text(frozen.figure),
             ", difference ", difference_text(frozen.ahead));
  const std::string keep = concat(" (", figures, "): keep the frozen one.");
  switch (frozen.main_is) {
    case Comparison::kBetter:
      if (learnt)
        return concat("Tuning the ViT paid: ", main, " does worse without (", figures, ").");
      break;
    case Comparison::kWorse:
      return concat("Tuning the ViT did harm", keep);
    case Comparison::kEqual:
      return concat("Tuning the ViT did not pay, ", main, " does as well without, within ",
                    kMarginText, keep);
    case Comparison::kUndecided:
      break;
  }
  return concat("Tuning the ViT is not shown to have paid", keep);
}

// False where the main model may be no better than chance, or where nothing bounds its figure.
bool has_learnt(const RunReport& report) {
  const MetricSummary* figure = find_metric(report.models.front(), main_metric(report.scale));
  return figure != nullptr && is_above(figure->primary(), chance_level(main_metric(report.scale)));
}

// A control that is better than chance on its own.
bool tells_something(const RunReport& report, const Control& control) {
  return control.found && is_above(control.figure, chance_level(main_metric(report.scale)));
}

std::string about_acquisition(const RunReport& report, const Control& clock) {
  const std::string& main = report.models.front().name;
  const std::string facts = "sequence length, timing, frame size and file type";
  const std::string figures =
      concat(main_name(report), " of these alone ", interval_text(clock.figure), ", difference ",
             difference_text(clock.ahead));
  if (clock.main_is == Comparison::kUndecided)
    return concat("Whether ", main, " knows more than ", facts, " do is undecided (", figures,
                  ").");
  if (clock.main_is != Comparison::kBetter) {
    const bool worse = clock.main_is == Comparison::kWorse;
    return concat("The pixels are not shown to carry the result: ", facts, " alone do ",
                  worse ? "better" : concat("as well, within ", kMarginText), " (", figures, "). ",
                  main, " may have learnt how the exams were acquired.");
  }
  std::string text = concat(main, " knows more than ", facts, " do (", figures, ").");
  if (tells_something(report, clock))
    text +=
        " These alone are better than chance, though: part of the result may come from how "
        "the exams were acquired.";
  return text;
}

std::string about_covariates(const RunReport& report, const Control& alone) {
  const std::string& main = report.models.front().name;
  const std::string names = covariate_names(report);
  const std::string figures =
      concat(main_name(report), " of ", names, " alone ", interval_text(alone.figure),
             ", difference ", difference_text(alone.ahead));
  switch (alone.main_is) {
    case Comparison::kBetter:
      return concat("The pixels add to the covariates: ", names, " alone do worse than ", main,
                    " (", figures, ").");
    case Comparison::kWorse:
      return concat("The pixels are not shown to add to the covariates: ", names,
                    " alone do better than ", main, " (", figures, ").");
    case Comparison::kEqual:
      return concat("The pixels do not add to the covariates: ", names, " alone do as well as ",
                    main, ", within ", kMarginText, " (", figures, ").");
    case Comparison::kUndecided:
      break;
  }
  return concat("Whether the pixels add to the covariates is undecided: ", names,
                " alone may do as well as ", main, " (", figures, ").");
}

std::string about_runs(const RunReport& report, const Control& other) {
  const std::string& main = report.models.front().name;
  const std::string figures =
      concat(main_name(report), " of ", report.against, " on the same exams ",
             interval_text(other.figure), ", difference ", difference_text(other.ahead));
  switch (other.main_is) {
    case Comparison::kBetter:
      return concat(main, " is better than ", report.against, " (", figures, ").");
    case Comparison::kWorse:
      return concat(main, " is worse than ", report.against, " (", figures, ").");
    case Comparison::kEqual:
      return concat(main, " does as well as ", report.against, ", within ", kMarginText, " (",
                    figures, ").");
    case Comparison::kUndecided:
      break;
  }
  return concat("Whether ", main, " is better or worse than ", report.against, " is undecided (",
                figures, ").");
}

}  // namespace

std::vector<std::string> verdict(const RunReport& report) {
  if (report.models.empty()) return {};
  const std::string& main = report.models.front().name;
  const std::string name = main_name(report);
  std::vector<std::string> lines = {about_the_model(report)};
  const Control shuffled = find_control(report, "shuffled"), clock = find_control(report, "clock"),
                single = find_control(report, "single"), mean = find_control(report, "mean"),
                blank = find_control(report, "blank");
  const bool learnt = has_learnt(report);
  const Control other = find_control(report, report.against);
  if (other.found) lines.push_back(about_runs(report, other));
  const Control frozen = find_control(report, "frozen");
  if (frozen.found) lines.push_back(about_tuning(name, main, frozen, learnt));
  const bool order_matters = report.models.front().learns_order;
  if (order_matters && shuffled.found && learnt) lines.push_back(about_order(name, main, shuffled));
  const std::string frame = single_text(report);
  for (const auto& [what, baseline] :
       {std::pair{frame, &single}, std::pair{std::string("The mean of the frames"), &mean}}) {
    if (baseline->found && (learnt || baseline->main_is == Comparison::kWorse))
      lines.push_back(about_baseline(name, main, what, *baseline));
  }
  for (const ModelResult& model : report.models) {
    if (!model.name.starts_with(kOnlyStream)) continue;
    const Control alone = find_control(report, model.name);
    const std::string stream = model.name.substr(std::string_view(kOnlyStream).size());
    if (alone.found && (learnt || alone.main_is == Comparison::kWorse))
      lines.push_back(about_baseline(name, main, concat("The stream ", stream, " alone"), alone));
  }
  if (blank.found && learnt) lines.push_back(about_blank(report, blank));
  const Control covariates = find_control(report, "covariates");
  if (covariates.found && learnt) lines.push_back(about_covariates(report, covariates));
  if (clock.found && learnt) lines.push_back(about_acquisition(report, clock));
  std::vector<std::string> unknown;
  if (report.tuned && !frozen.found) unknown.push_back("tuning the ViT (control 'frozen')");
  if (order_matters && !shuffled.found)
    unknown.push_back("the order of frames (control 'shuffled')");
  if (order_matters && !blank.found)
    unknown.push_back(concat("features rather than times",
                             report.covariates.empty() ? "" : " and covariates",
                             " (control 'blank')"));
  if (main != "clock" && !clock.found)
    unknown.push_back("pixels rather than metadata (control 'clock')");
  if (main != "covariates" && !report.covariates.empty() && !covariates.found)
    unknown.push_back("pixels beside the covariates (control 'covariates')");
  if (!unknown.empty() && report.against.empty()) {
    lines.push_back(concat("Not examined: whether ", join(unknown, " and "),
                           " carry the result; train --compare does that."));
  }
  return lines;
}

}  // namespace coldframe::temporal
