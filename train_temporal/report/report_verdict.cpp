// The figures become plain words here: a row of a table is what is said, and when.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/text/text.h"
#include "train_temporal/report/claims.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"
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
// Both are false without an interval, whose bounds are NaN.
bool is_above(const Estimate& estimate, double bound) {
  return estimate.claim_low > bound;
}
bool is_below(const Estimate& estimate, double bound) {
  return estimate.claim_high < bound;
}

// Intervals are of the fits as they are. Whether fits like these find anything is another matter:
// folds share their training exams, so that a pattern of noise helps or harms several of them. A
// mean over K folds then has a variance of 1/K + 1/(K − 1) of a fold's, and not of 1/K (Nadeau and
// Bengio 2003, Inference for the generalization error, section 3). Half the interval's width
// stands for the error, or the side towards chance where that is shorter; near a figure's limit it
// is longer, and says of the figure, not of chance.
bool is_beyond_folds(const TargetReport& report, const Estimate& estimate, double chance) {
  const auto folds = static_cast<double>(
      std::ranges::count(report.models.front().folds, std::size_t{0}, &FoldScores::repeat));
  const double wider = folds > 1 ? std::sqrt(1 + folds / (folds - 1)) : 0;
  const double value = estimate.value.value, half = (estimate.claim_high - estimate.claim_low) / 2;
  const double towards = value > chance ? value - estimate.claim_low : estimate.claim_high - value;
  return std::abs(value - chance) > wider * std::min(half, towards);
}

bool is_surely_above(const TargetReport& report, const Estimate& estimate, double chance) {
  return is_above(estimate, chance) && is_beyond_folds(report, estimate, chance);
}

// A difference that is certainly too small to matter is none, whatever its sign.
Comparison compare(const Estimate& difference) {
  if (!difference.low.defined()) return Comparison::kUndecided;
  const bool within = difference.low.value > -kMargin && difference.high.value < kMargin;
  if (within) return Comparison::kEqual;
  if (is_above(difference, 0)) return Comparison::kBetter;
  return is_below(difference, 0) ? Comparison::kWorse : Comparison::kUndecided;
}

std::string main_name(const TargetReport& report) {
  const std::string title(main_metric(report.scale)->title);
  return words_of(report.scale).lower_case ? lower(title) : title;
}

// The words that stand in a sentence in braces.
using Words = std::vector<std::pair<std::string_view, std::string>>;

std::string filled(std::string_view sentence, const Words& words) {
  std::string text;
  for (;;) {
    const std::size_t open = sentence.find('{');
    text += sentence.substr(0, open);
    if (open == sentence.npos) return text;
    const std::size_t close = sentence.find('}', open);
    const std::string_view name = sentence.substr(open + 1, close - open - 1);
    text += std::ranges::find(words, name, &Words::value_type::first)->second;
    sentence.remove_prefix(close + 1);
  }
}

// The main model's figure, where it is defined.
struct Standing {
  Estimate estimate;
  double chance = 0;
  bool beyond_folds = true;         // is_beyond_folds()
  bool across_folds = false;        // ranks_across_folds()
  const Estimate* ranks = nullptr;  // ranks_above_chance()
};

// What is said of it; the first row that holds. Behind one that shows no skill the controls are not
// spoken of.
struct StandingRow {
  bool (*holds)(const Standing&);
  std::string_view says;
};
constexpr StandingRow kStandings[] = {
    {[](const Standing& s) { return !s.estimate.low.defined(); },
     " Without an interval, nothing can be said of what it has learnt."},
    {[](const Standing& s) { return s.beyond_folds && is_above(s.estimate, s.chance); }, ""},
    {[](const Standing& s) { return s.ranks != nullptr; },
     " Its R² shows nothing, but its predictions rank the exams (Spearman {ranks}): it has learnt "
     "something, and is far off where numbers are extreme."},
    {[](const Standing& s) {
       return s.beyond_folds && is_below(s.estimate, s.chance) && s.across_folds;
     },
     " That is below {chance}, where folds ranked together put noise as well: nothing shows that "
     "it has learnt anything, so its controls cannot tell what carries the result."},
    {[](const Standing& s) { return s.beyond_folds && is_below(s.estimate, s.chance); },
     " That is worse than chance ({chance})."},
    {[](const Standing& s) {
       return s.estimate.low.value > s.chance || s.estimate.high.value < s.chance;
     },
     " At 99 % its interval{wider} includes {chance}: that is too weak for its controls to tell "
     "what carries the result."},
    {[](const Standing&) { return true; },
     " The interval includes {chance}: nothing shows that it has learnt anything, so its controls "
     "cannot tell what carries the result."}};

// Heavy tails hide from R² that predictions rank exams: Spearman's correlation, where it is
// certainly above 0; null otherwise.
const Estimate* ranks_above_chance(const TargetReport& report) {
  if (report.scale != Scale::kNumber) return nullptr;
  const MetricSummary* ranks = find_metric(report.models.front().summary, metric_named("spearman"));
  return ranks != nullptr && is_surely_above(report, ranks->primary(), 0) ? &ranks->primary()
                                                                          : nullptr;
}

std::string on_patients(const TargetReport& report) {
  switch (report.seen) {
    case Seen::kNone:
      return report.held_out_by.empty()
                 ? "On patients that it has not seen"
                 : concat("On ", groups_text(report), " that it has not seen");
    case Seen::kCopies:
      return "On exams of which some have the features of exams that it was trained on";
    case Seen::kSome:
      return "On patients of whom some may have taken part in its training";
    case Seen::kUnknown:
      break;
  }
  return "On patients of whom it is not known whether they took part in its training";
}

std::string caution(const TargetReport& report) {
  constexpr std::size_t kFewGroups = 10;
  if (report.seen == Seen::kCopies)
    return " That is too good, and nothing that follows holds for other patients (see Warnings).";
  if (!report.held_out_by.empty() && report.models.front().folds.size() < kFewGroups)
    return " So few groups say little of another one, and groups differ: the interval is wide.";
  return "";
}

std::string about_the_model(const TargetReport& report) {
  const ModelResult& model = report.models.front();
  const MetricSummary* figure = find_metric(model.summary, main_metric(report.scale));
  const ScaleWords& words = words_of(report.scale);
  if (figure == nullptr || !figure->primary().value.defined())
    return concat("The ", main_name(report), " of ", model.name,
                  " is undefined: no held-out part has ", words.undefined, ".");
  const double chance = main_metric(report.scale)->chance;
  const Standing standing{figure->primary(), chance,
                          is_beyond_folds(report, figure->primary(), chance),
                          ranks_across_folds(model, *figure), ranks_above_chance(report)};
  const auto row = std::ranges::find_if(
      kStandings, [&](const StandingRow& each) { return each.holds(standing); });
  return concat(
      on_patients(report), ", ", model.name, " reaches ", words.article, " ", main_name(report),
      " of ", interval_text(standing.estimate), " (", origin_text(model, *figure), ").",
      caution(report),
      filled(row->says, {{"chance", concat(standing.chance)},
                         {"wider", standing.beyond_folds ? "" : ", wider as folds share exams,"},
                         {"ranks", standing.ranks ? interval_text(*standing.ranks) : ""}}));
}

bool is_better_than_chance(const TargetReport& report, const Estimate& figure) {
  return is_surely_above(report, figure, main_metric(report.scale)->chance);
}

// False where the main model may be no better than chance, or where nothing bounds its figure.
bool has_learnt(const TargetReport& report) {
  const MetricSummary* figure =
      find_metric(report.models.front().summary, main_metric(report.scale));
  return ranks_above_chance(report) != nullptr ||
         (figure != nullptr && is_better_than_chance(report, figure->primary()));
}

std::string single_text(const TargetReport& report) {
  if (report.per_frame) return "Each frame by itself";
  const auto single = std::ranges::find(report.models, "single", &ModelResult::name);
  const bool named = single != report.models.end() && !single->frame.empty();
  if (named && single->frame == "best") return "The best of the first, middle and last frame";
  return concat("The ", named ? single->frame : "middle", " frame");
}

// A control with its main figure and how far the main model is ahead of it.
struct Control {
  std::string name;
  Estimate figure, ahead;
  Comparison main_is = Comparison::kUndecided;
  std::string found = {};  // what `summary` took
  bool between_runs = false;

  // True where something is claimed, and nothing is known of how fits differ. Of two finished runs
  // it is claimed of these as they are.
  bool is_of_one_seed() const {
    return main_is != Comparison::kUndecided && !between_runs && std::isnan(ahead.error_of_fits);
  }
};

constexpr const char* kOneSeed = "; of one seed";
constexpr const char* kMoreSeeds =
    "The intervals of one seed do not know how much fits differ by chance: before you claim what "
    "is of one seed, train with --seeds 3.";

Words words_for(const TargetReport& report) {
  const bool covariates = !report.covariates.empty();
  return {{"main", report.models.front().name},
          {"metric", main_name(report)},
          {"against", report.against},
          {"margin", concat("±", fixed(kMargin, 2))},
          {"Single", single_text(report)},
          {"rest", covariates ? "times, length and covariates" : "times and length"},
          {"and covariates", covariates ? " and covariates" : ""},
          {"covariates", covariate_names(report)},
          {"facts", "sequence length, timing, frame size and file type"}};
}

// The controls that a claim is about.
std::vector<Control> controls_of(const Claim& claim, const TargetReport& report) {
  const bool is_beginning = claim.control == kOnlyStream;
  const std::string_view name = claim.control == kAgainst ? report.against : claim.control;
  std::vector<Control> controls;
  for (const ModelResult& model : report.models) {
    if (is_beginning ? !model.name.starts_with(name) : model.name != name) continue;
    const MetricSummary* figure = find_metric(model.summary, main_metric(report.scale));
    const PairedDifference* ahead = find_metric(model.difference, main_metric(report.scale));
    if (figure == nullptr || ahead == nullptr || !ahead->primary().value.defined()) continue;
    controls.push_back({model.name, figure->primary(), ahead->primary(), compare(ahead->primary()),
                        found_text(model), claim.control == kAgainst});
    if (!is_beginning) break;
  }
  return controls;
}

Words words_for(const Claim& claim, const Control& control, Words words) {
  if (claim.control == kOnlyStream)
    words.emplace_back("stream", control.name.substr(claim.control.size()));
  const std::string what = filled(claim.what, words);
  words.emplace_back("What", what);
  words.emplace_back("what", lower(what.substr(0, 1)) + what.substr(what.empty() ? 0 : 1));
  words.emplace_back("figures",
                     concat(filled(claim.figures, words), " ", interval_text(control.figure),
                            ", difference ", difference_text(control.ahead), control.found,
                            control.is_of_one_seed() ? kOneSeed : ""));
  return words;
}

std::string sentence_of(const Claim& claim, const Control& control, const TargetReport& report,
                        bool learnt) {
  switch (control.main_is) {
    case Comparison::kBetter:
      if (claim.better_if_learnt && !learnt) break;
      return concat(claim.better,
                    is_better_than_chance(report, control.figure) ? claim.though : "");
    case Comparison::kWorse:
      return std::string(claim.worse);
    case Comparison::kEqual:
      return std::string(claim.equal);
    case Comparison::kUndecided:
      break;
  }
  return std::string(claim.undecided);
}

}  // namespace

std::vector<std::string> verdict(const TargetReport& report) {
  std::vector<std::string> lines = {about_the_model(report)}, unexamined;
  const bool learnt = has_learnt(report);
  bool of_one_seed = false;
  const Words common = words_for(report);
  for (const Claim& claim : claims()) {
    const bool arises = claim.arises != nullptr && claim.arises(report);
    if (claim.only_if_arises && !arises) continue;
    const std::vector<Control> controls = controls_of(claim, report);
    for (const Control& control : controls) {
      const bool worse = control.main_is == Comparison::kWorse;
      const bool said =
          learnt || claim.said == Said::kAlways || (claim.said == Said::kIfLearntOrWorse && worse);
      if (!said) continue;
      lines.insert(
          worse && claim.worse_leads ? lines.begin() : lines.end(),
          filled(sentence_of(claim, control, report, learnt), words_for(claim, control, common)));
      of_one_seed = of_one_seed || control.is_of_one_seed();
    }
    if (controls.empty() && arises && report.models.front().name != claim.control)
      unexamined.push_back(filled(claim.unexamined, common));
  }
  if (of_one_seed) lines.emplace_back(kMoreSeeds);
  if (!unexamined.empty() && report.against.empty())
    lines.push_back(concat("Not examined: whether ", join(unexamined, " and "), " carry what ",
                           report.models.front().name, " found; train --compare does that."));
  return lines;
}

}  // namespace coldframe::temporal
