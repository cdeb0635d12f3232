#include "train_temporal/report/report_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/charts/html.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/report/report.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

constexpr std::string_view kNoInterval = " [no interval: ";

std::string with_interval(const Estimate& estimate, const std::string& sign) {
  std::string text = sign + figure_text(estimate.value);
  if (!estimate.value.defined()) return figure_text(estimate.value);
  if (!estimate.low.defined()) return concat(text, kNoInterval, estimate.low.undefined, "]");
  const bool certain = estimate.low.value == estimate.high.value && sign.empty();
  if (certain && estimate.value.value == 0.5) return text + " [all exams have one score]";
  if (certain && estimate.value.value == 0) return text + " [no exam tells them apart]";
  return text + " [" + figure_text(estimate.low) + ", " + figure_text(estimate.high) + "]";
}

std::size_t repeats_of(const ModelResult& model) {
  return model.folds.back().repeat - model.folds.front().repeat + 1;
}

}  // namespace

std::string figure_text(const MetricValue& figure) {
  if (!figure.defined()) return "undefined: " + figure.undefined;
  const std::string size = fixed(std::abs(figure.value), 3);
  return figure.value < 0 && size != "0.000" ? "−" + size : size;
}

std::string interval_text(const Estimate& estimate) {
  return with_interval(estimate, "");
}

std::string difference_text(const Estimate& difference) {
  return with_interval(difference, difference.value.value >= 0.0005 ? "+" : "");
}

std::string p_text(double p) {
  return p < 0.001 ? "< 0.001" : fixed(p, 3);
}

std::string level_text(const TargetReport& report) {
  return concat(fixed(100 * report.bootstrap.level, 0), " %");
}

std::string ratio_text(double part, double all) {
  return all > 0 ? fixed(part / all, 3) : "–";
}

html::Body figures_table(const std::vector<std::string>& header, html::Rows rows) {
  static const std::vector<std::string> kMarks = {"*", "†", "‡", "§", "‖", "¶"};
  // "¶", then "**"
  const auto mark = [](std::size_t place) {
    std::string text;
    for (std::size_t i = 0; i <= place / kMarks.size(); ++i) text += kMarks[place % kMarks.size()];
    return text;
  };
  std::vector<std::string> reasons;
  for (auto& row : rows) {
    for (std::string& cell : row) {
      const std::size_t at = cell.find(kNoInterval);
      if (at == cell.npos) continue;
      const std::size_t from = at + kNoInterval.size(), end = cell.rfind(']');
      const std::string reason = cell.substr(from, end - from);
      const auto place =
          static_cast<std::size_t>(std::ranges::find(reasons, reason) - reasons.begin());
      if (place == reasons.size()) reasons.push_back(reason);
      cell.replace(at, end + 1 - at, " " + mark(place));
    }
  }
  html::Body body = html::table(header, rows);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    body += html::note(concat(mark(i), " no interval: ", reasons[i], "."));
  return body;
}

std::string model_label(const ModelResult& model) {
  return model.frame.empty() ? model.name : concat(model.name, ", ", model.frame, " frame");
}

bool is_binary(const TargetReport& report) {
  return report.scale == Scale::kNominal && report.classes.size() == 2;
}

bool has_classes(const TargetReport& report) {
  return report.scale == Scale::kNominal || report.scale == Scale::kOrdinal;
}

ScoredExams pooled_exams(const ModelResult& model) {
  return pooled_by_repeat(model.folds).front().exams;
}

const char* labels_name(const TargetReport& report) {
  return report.per_frame ? "frames" : "exams";
}

std::string rows_name(const TargetReport& report) {
  const std::string& of = report.questions.aggregate;
  if (of.empty()) return labels_name(report);
  return of == "patient" ? "patients" : concat("exams averaged by ", of);
}

std::string folds_text(const ModelResult& model) {
  const std::size_t folds = model.folds.size(), repeats = repeats_of(model);
  if (folds == 1) return model.folds_together ? "all folds ranked together" : "one held-out part";
  if (model.folds_together)
    return concat("all folds ranked together, mean over ", folds, " repeats of the split");
  const auto ranks = std::ranges::find(model.summary, true, &MetricSummary::by_fold);
  const std::string of = ranks == model.summary.end() ? plural(folds, "fold") : folds_of(*ranks);
  return concat("mean over ", of,
                repeats == 1 ? "" : concat(", ", repeats, " repeats of the split"));
}

std::string folds_of(const MetricSummary& summary) {
  const std::size_t all = summary.per_fold.size(), with_it = summary.folds_with_it();
  return concat(with_it == all ? "" : concat(with_it, " of "), plural(all, "fold"));
}

std::string present_text(const MetricSummary& summary) {
  if (!summary.by_fold || !summary.over_classes_present.defined()) return {};
  return concat("; ", fixed(summary.over_classes_present.value, 3), " over all ",
                summary.per_fold.size(), " folds, each by the classes that it holds");
}

std::string search_text(const std::vector<Json>& settings) {
  std::vector<std::string> options;
  for (const auto& [option, value] : settings.front().items()) {
    if (!value.is_string()) continue;
    std::map<std::string, std::size_t> count;
    for (const Json& setting : settings) ++count[setting.at(option).get<std::string>()];
    std::vector<std::string> words;
    for (const auto& [word, folds] : count) words.push_back(concat(word, " in ", folds));
    words.front() += concat(" of ", plural(settings.size(), "fold"));
    options.push_back(concat(option, " ", join(words, ", ")));
    std::ranges::replace(options.back(), '_', ' ');
  }
  return join(options, "; ");
}

std::string origin_text(const ModelResult& model, const MetricSummary& summary) {
  if (model.folds.size() == 1) return folds_text(model);
  const std::size_t repeats = repeats_of(model);
  const std::string of_repeats = repeats == 1 ? "" : concat(", ", repeats, " repeats of the split");
  if (summary.by_fold)
    return concat("mean over ", folds_of(summary), of_repeats, present_text(summary));
  return concat(model.folds.size() / repeats, " folds taken together",
                repeats == 1 ? "" : concat(", mean over ", repeats, " repeats of the split"));
}

namespace {

std::string about_classes(const TargetReport& report) {
  if (report.classes.size() > 2)
    return "Macro figures are unweighted means over the classes, each against the rest. Balanced "
           "accuracy is macro recall, accuracy is micro recall. Kappa is "
           "Cohen's, 0 by chance. The Brier score sums over classes. A calibrated model has ECE 0.";
  const auto& own = report.questions.threshold;
  return concat("Sensitivity, specificity, F1, accuracy and kappa are at the threshold ",
                own ? exact(*own) + " that was given" : "that the validation part chose (Youden)",
                ". A calibrated model has ECE 0, slope 1 and intercept 0.");
}

std::string about_grades(const TargetReport& report) {
  return concat(
      "Decisions are medians of the predicted distribution over classes. Quadratic kappa is 0 by "
      "chance; the MAE is in steps between classes. ",
      report.classes.size() > 2 ? "Macro F1 is the unweighted mean over classes, balanced accuracy "
                                  "is macro recall, accuracy is micro recall. The Brier score sums "
                                  "over classes. "
                                : "",
      "A calibrated model has ECE 0.");
}

std::string about_numbers(const TargetReport&) {
  return "R² is 0 for a model that always says the mean, 1 for one that is always right; MAE and "
         "RMSE are in the unit of the target.";
}

std::string about_times(const TargetReport&) {
  return "Harrell's and Uno's C and the AUROC over time are 0.5 by chance and 1 for risks in the "
         "order of events; Uno's C takes events before the last horizon, weighted against "
         "censoring. The Brier score is integrated over the horizons, 0 being best.";
}

constexpr ScaleWords kNominalWords = {
    .scale = Scale::kNominal,
    .article = "an",
    .lower_case = false,
    .undefined = "all classes",
    .about_figures = about_classes,
    .about_ranks =
        "Ranks compare exams of one fold, whose scores come from one model: AUROC and AUPRC are "
        "means over folds. Other figures are of all folds together. ",
    .choices = "Early stopping, temperature and threshold see",
    .uncertain =
        "Early stopping, temperature and threshold are uncertain; AUROC and AUPRC within a fold do "
        "not depend on the last two",
    .loss = "log loss",
    .rank_article = "the ",
    .alike = "their class",
    .enough = "all classes"};

constexpr ScaleWords words_without_choices(Scale scale, const char* article, bool lower_case,
                                           std::string (*about)(const TargetReport&)) {
  ScaleWords words = kNominalWords;
  words.scale = scale;
  words.article = article;
  words.lower_case = lower_case;
  words.undefined = "labels that differ";
  words.about_figures = about;
  words.about_ranks = "";
  words.choices = "Early stopping sees";
  words.uncertain = "Early stopping is uncertain";
  words.loss = "loss";
  return words;
}

constexpr ScaleWords words_of_times() {
  ScaleWords words = words_without_choices(Scale::kTime, "a", false, about_times);
  words.undefined = "an exam that is followed beyond another's event";
  words.about_ranks =
      "Ranks compare exams of one fold, whose risks come from one model, and are means over the "
      "folds that have them, where half of the folds do, else of all folds together as the Brier "
      "score is. ";
  words.rank_article = "";
  words.alike = "those like them";
  words.enough = "several events";
  return words;
}

constexpr ScaleWords kScaleWords[] = {
    kNominalWords, words_without_choices(Scale::kOrdinal, "a", true, about_grades),
    words_without_choices(Scale::kNumber, "an", false, about_numbers), words_of_times()};

}  // namespace

const ScaleWords& words_of(Scale scale) {
  return *std::ranges::find(kScaleWords, scale, &ScaleWords::scale);
}

namespace {

bool order_matters(const TargetReport& report) {
  return report.models.front().learns_order;
}

// A model that sees less of the frames.
constexpr Claim baseline(std::string_view control, std::string_view what) {
  return {.control = control,
          .said = ClaimCondition::kIfLearntOrWorse,
          .figures = "{metric}",
          .better = "{What} gives less than {main} ({figures}).",
          .worse = "{What} gives more than {main} ({figures}): prefer it.",
          .equal = "{What} does as well as {main}, within {margin} ({figures}).",
          .undecided = "Whether {what} does as well as {main} is undecided ({figures}).",
          .what = what};
}

// If the difference is undecided, prefer the frozen ViT: tuned features cost more and must be
// recomputed.
constexpr Claim kClaims[] = {
    {.control = kAgainst,
     .said = ClaimCondition::kAlways,
     .figures = "{metric} of {against} on the same exams",
     .better = "{main} is better than {against} ({figures}).",
     .worse = "{main} is worse than {against} ({figures}).",
     .equal = "{main} does as well as {against}, within {margin} ({figures}).",
     .undecided = "Whether {main} is better or worse than {against} is undecided ({figures})."},
    // If such a simple model is better, that is stated first: the run then has no finding.
    {.control = "summary",
     .said = ClaimCondition::kIfLearntOrWorse,
     .figures = "{metric} of the linear model",
     .better = "A linear model on summaries of the frames gives less than {main} ({figures}).",
     .worse = "A linear model on summaries of the frames does better than {main} ({figures}): use "
              "it (--model summary), or look for inputs and settings with which {main} finds as "
              "much (--inputs change or both, --search). What follows is of {main}.",
     .equal = "A linear model on summaries of the frames does as well as {main}, within {margin} "
              "({figures}).",
     .undecided = "Whether a linear model on summaries of the frames does as well as {main} is "
                  "undecided ({figures}).",
     .worse_leads = true},
    {.control = "frozen",
     .said = ClaimCondition::kAlways,
     .figures = "{metric} of {main} on frozen features",
     .better = "Tuning the ViT paid: {main} does worse without ({figures}).",
     .worse = "Tuning the ViT did harm ({figures}): keep the frozen one.",
     .equal = "Tuning the ViT did not pay, {main} does as well without, within {margin} "
              "({figures}): keep the frozen one.",
     .undecided = "Tuning the ViT is not shown to have paid ({figures}): keep the frozen one.",
     .unexamined = "tuning the ViT (control 'frozen')",
     .arises = [](const TargetReport& report) { return report.tuned; },
     .better_if_learnt = true},
    {.control = "shuffled",
     .said = ClaimCondition::kIfLearnt,
     .figures = "{metric} with shuffled frames",
     .better = "The order of frames carries part of what {main} found: it loses when it is trained "
               "and tested on shuffled frames ({figures}).",
     .worse = "The order of frames does not carry what {main} found: it does better on shuffled "
              "frames ({figures}).",
     .equal = "The order of frames does not carry what {main} found: it does as well, within "
              "{margin}, on shuffled frames ({figures}).",
     .undecided = "Whether the order of frames carries part of what {main} found is undecided: on "
                  "shuffled frames it may do as well or differ by more than {margin} ({figures}).",
     .unexamined = "the order of frames (control 'shuffled')",
     .arises = order_matters,
     .only_if_arises = true},
    baseline("single", "{Single}"),
    baseline("mean", "The mean of the frames"),
    baseline(kOnlyStream, "The stream {stream} alone"),
    {.control = "blank",
     .said = ClaimCondition::kIfLearnt,
     .figures = "{metric} without them",
     .better = "The features carry part of what {main} found: without them, {rest}, it "
               "does worse ({figures}).",
     .worse = "The features do not carry what {main} found: without them, {rest}, it "
              "does better ({figures}).",
     .equal = "The features do not carry what {main} found: without them, {rest}, it "
              "does as well, within {margin} ({figures}).",
     .undecided = "Whether the features carry what {main} found is undecided: without them, "
                  "{rest}, it may do as well ({figures}).",
     .unexamined = "features rather than times{and covariates} (control 'blank')",
     .arises = order_matters},
    {.control = "covariates",
     .said = ClaimCondition::kIfLearnt,
     .figures = "{metric} of {covariates} alone",
     .better =
         "The pixels add to the covariates: {covariates} alone do worse than {main} ({figures}).",
     .worse = "The pixels are not shown to add to the covariates: {covariates} alone do better "
              "than {main} ({figures}).",
     .equal = "The pixels do not add to the covariates: {covariates} alone do as well as {main}, "
              "within {margin} ({figures}).",
     .undecided = "Whether the pixels add to the covariates is undecided: {covariates} alone may "
                  "do as well as {main} ({figures}).",
     .unexamined = "pixels beside the covariates (control 'covariates')",
     .arises = [](const TargetReport& report) { return !report.covariates.empty(); }},
    {.control = "clock",
     .said = ClaimCondition::kIfLearnt,
     .figures = "{metric} of these alone",
     .better = "{main} knows more than {facts} do ({figures}).",
     .worse = "The pixels are not shown to carry what {main} found: {facts} alone do better "
              "({figures}). "
              "{main} may have learnt how the exams were acquired.",
     .equal =
         "The pixels are not shown to carry what {main} found: {facts} alone do as well, within "
         "{margin} ({figures}). {main} may have learnt how the exams were acquired.",
     .undecided = "Whether {main} knows more than {facts} do is undecided ({figures}).",
     .unexamined = "pixels rather than metadata (control 'clock')",
     .arises = [](const TargetReport&) { return true; },
     .though = " These alone are better than chance, though: part of the result may come from how "
               "the exams were acquired."},
};

}  // namespace

std::span<const Claim> claims() {
  return kClaims;
}

// Turns metrics into plain words: each table row holds a sentence and its condition.

namespace {

// Differences of the main metric up to this are negligible.
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
  const std::string title = title_of(main_metric(report.scale), report.classes.size());
  return words_of(report.scale).lower_case ? lower(title) : title;
}

std::string article_of(const TargetReport& report) {
  return main_name(report).starts_with("macro") ? "a" : words_of(report.scale).article;
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

// The verdict: the first row that holds. After one without skill, controls are not mentioned.
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
     " That is below {chance}, where folds ranked together put pure noise, too: nothing shows that "
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

// A mean over folds counts a fold of two exams as one of a hundred.
std::string unlike_folds(const ModelResult& model, const MetricSummary& figure,
                         const std::string& rows) {
  constexpr std::size_t kUnlike = 5;
  std::size_t least = std::numeric_limits<std::size_t>::max(), most = 0;
  for (std::size_t f = 0; f < model.folds.size(); ++f) {
    if (!figure.per_fold[f].defined()) continue;
    least = std::min(least, model.folds[f].exams.size());
    most = std::max(most, model.folds[f].exams.size());
  }
  if (!figure.by_fold || most <= kUnlike * least) return {};
  return concat(" Each fold counts once in this mean, the smallest with ", least, " ", rows,
                " as the largest with ", most,
                figure.pooled.value.defined()
                    ? concat("; all of them ranked together give ", interval_text(figure.pooled))
                    : "",
                ".");
}

std::string caution(const TargetReport& report, const Estimate& figure) {
  constexpr std::size_t kFewGroups = 10;
  if (report.seen == Seen::kCopies)
    return " That is too good, and nothing that follows holds for other patients (see Warnings).";
  if (!report.held_out_by.empty() && report.models.front().folds.size() < kFewGroups)
    return concat(" So few groups say little of another one, and groups differ",
                  figure.low.defined() ? ": the interval is wide." : ".");
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
      on_patients(report), ", ", model.name, " reaches ", article_of(report), " ",
      main_name(report), " of ", interval_text(standing.estimate), " (",
      origin_text(model, *figure), ").", unlike_folds(model, *figure, rows_name(report)),
      caution(report, standing.estimate),
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

// A control with its main metric and the main model's margin over it.
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
    "Intervals of one seed ignore how much fits differ: train with --seeds 3 before you report "
    "what "
    "rests on one seed.";

Words words_for(const TargetReport& report) {
  const bool covariates = !report.covariates.empty();
  return {{"main", report.models.front().name},
          {"metric", main_name(report)},
          {"against", report.against},
          {"margin", concat("±", fixed(kMargin, 2))},
          {"Single", single_text(report)},
          {"rest", concat("with ", covariates ? "times, length and covariates" : "times and length",
                          " alone")},
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

// A `blank` that is shown neither times nor lengths that differ.
constexpr const char* kNothingIsLeft = "with nothing that differs between exams";

Words words_for(const Claim& claim, const Control& control, Words words) {
  if (claim.control == "blank" && control.figure.low.value == control.figure.high.value)
    words.insert(words.begin(), {"rest", kNothingIsLeft});
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

// The sentences of a verdict as they are made.
struct Sentences {
  std::vector<std::string> lines, unexamined;
  bool learnt = false, compare = false, of_one_seed = false;

  void add(const Claim& claim, const Control& control, const TargetReport& report,
           const Words& words) {
    const bool worse = control.main_is == Comparison::kWorse;
    lines.insert(
        worse && claim.worse_leads ? lines.begin() : lines.end(),
        filled(sentence_of(claim, control, report, learnt), words_for(claim, control, words)));
    of_one_seed = of_one_seed || control.is_of_one_seed();
    compare = true;
  }
};

// What goes without a comparison; "" otherwise. A model that took summaries in all fits may be the
// very linear model that it would be compared with; where these are the same in any order of the
// frames, shuffled ones tell nothing of it.
std::string without_comparison(const Claim& claim, const std::vector<Control>& controls,
                               const TargetReport& report) {
  const ModelResult& main = report.models.front();
  const auto [all, summaries] = taken_by(main);
  if (claim.control == "shuffled" && main.blind_to_order)
    return concat("The order of frames plays no part in what ", main.name, " found: it took ",
                  families_text(main), ", and no order changes these.");
  const auto is_same = [](const Control& one) {
    return one.ahead.low.value == one.ahead.high.value;
  };
  if (claim.control == "summary" && all > 0 && summaries == all &&
      std::ranges::any_of(controls, is_same))
    return concat(main.name, " is a linear model on summaries of the frames: it took one in all ",
                  all, " fits (", families_text(main), ").");
  return {};
}

// The sequence model beside `auto` reads order, whatever auto took.
void add_order(Sentences& sentences, const Claim& claim, const TargetReport& report, Words words) {
  const std::vector<ModelResult>& pair = report.in_order_and_shuffled;
  if (pair.empty() || taken_by(report.models.front()).summaries == 0) return;
  const Metric metric = main_metric(report.scale);
  const MetricSummary *in_order = find_metric(pair[0].summary, metric),
                      *shuffled = find_metric(pair[1].summary, metric);
  const PairedDifference* ahead = find_metric(pair[1].difference, metric);
  if (!is_better_than_chance(report, in_order->primary()) || !ahead->primary().value.defined())
    return;
  words.insert(words.begin(), {"main", pair[0].name});
  sentences.add(claim,
                {pair[0].name, shuffled->primary(), ahead->primary(), compare(ahead->primary())},
                report, words);
}

void add_claim(Sentences& sentences, const Claim& claim, const TargetReport& report,
               const Words& words) {
  const bool arises = claim.arises != nullptr && claim.arises(report);
  if (claim.only_if_arises && !arises) return;
  const std::vector<Control> controls = controls_of(claim, report);
  const std::string instead = without_comparison(claim, controls, report);
  if (!instead.empty() && sentences.learnt && (arises || !controls.empty()))
    sentences.lines.push_back(instead);
  for (const Control& control : controls) {
    const bool worse = control.main_is == Comparison::kWorse;
    const bool said = sentences.learnt || claim.said == ClaimCondition::kAlways ||
                      (claim.said == ClaimCondition::kIfLearntOrWorse && worse);
    if (said && instead.empty()) sentences.add(claim, control, report, words);
  }
  if (claim.control == "shuffled") add_order(sentences, claim, report, words);
  if (controls.empty() && arises && instead.empty() && report.models.front().name != claim.control)
    sentences.unexamined.push_back(filled(claim.unexamined, words));
}

}  // namespace

std::string claims_text(const TargetReport& report) {
  if (report.bootstrap.level >= kClaimLevel) return {};
  return concat("Claims take intervals of ", fixed(100 * kClaimLevel, 0),
                " %, as several are made at once, and those of ", level_text(report),
                " are printed: a difference may be undecided although its printed interval "
                "excludes 0.");
}

std::vector<std::string> verdict(const TargetReport& report) {
  Sentences sentences{{about_the_model(report)}, {}, has_learnt(report)};
  const Words words = words_for(report);
  for (const Claim& claim : claims()) add_claim(sentences, claim, report, words);
  std::vector<std::string>& lines = sentences.lines;
  const std::vector<std::string>& unexamined = sentences.unexamined;
  if (const std::string at_99 = claims_text(report); sentences.compare && !at_99.empty())
    lines.push_back(at_99);
  if (sentences.of_one_seed) lines.emplace_back(kMoreSeeds);
  if (!unexamined.empty() && report.against.empty())
    lines.push_back(concat("Not examined: how much of what ", report.models.front().name,
                           " found comes from ", join(unexamined, ", or from "),
                           "; train --compare tells."));
  return lines;
}

// The data themselves show what to be wary of.

namespace {

constexpr std::size_t kFewValidationPatients = 10, kFewPatients = 50;

void warn_of_held_out_parts(const TargetReport& report, std::vector<std::string>& warnings) {
  const std::vector<FoldScores>& folds = report.models.front().folds;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    std::vector<std::string> lacking;
    for (const FoldScores& fold : folds) {
      if (std::ranges::find(fold.exams.label, static_cast<int>(c)) != fold.exams.label.end())
        continue;
      lacking.push_back(concat("repeat ", fold.repeat, ", fold ", fold.fold));
    }
    if (lacking.empty()) continue;
    const std::string who = lacking.size() == 1
                                ? concat(lacking.front(), " holds")
                                : concat(lacking.size(), " of ", folds.size(), " folds hold");
    warnings.push_back(concat(who, " out none of the ", rows_name(report), " of class '",
                              report.classes[c],
                              "': AUROC and AUPRC are undefined there, and their mean leaves ",
                              lacking.size() == 1 ? "it" : "them", " out"));
  }
}

// Calls `take` with each figure of the main model, and with where it is: "", or " at 365".
template <typename Take>
void visit_figures(const TargetReport& report, const Take& take) {
  for (const MetricSummary& figure : report.models.front().summary) take(figure, "");
  for (const HorizonFigures& at : report.survival.horizons)
    take(at.auroc, " at " + exact(at.horizon));
}

// Folds hold out few events, or nobody who is followed for long.
void warn_of_undefined_folds(const TargetReport& report, std::vector<std::string>& warnings) {
  if (report.scale != Scale::kTime) return;
  visit_figures(report, [&](const MetricSummary& figure, const std::string& where) {
    const auto lacking = std::ranges::find_if_not(figure.per_fold, &MetricValue::defined);
    if (!figure.by_fold || lacking == figure.per_fold.end()) return;
    const auto count = figure.per_fold.size() - static_cast<std::size_t>(std::ranges::count_if(
                                                    figure.per_fold, &MetricValue::defined));
    warnings.push_back(concat(count, " of ", figure.per_fold.size(), " folds have no ",
                              figure.metric->title, where, " (", lacking->undefined,
                              "): it is the mean over the others"));
  });
}

void warn_of_ranks_across_folds(const TargetReport& report, std::vector<std::string>& warnings) {
  const ModelResult& model = report.models.front();
  const ScaleWords& words = words_of(report.scale);
  std::vector<std::string> figures;
  visit_figures(report, [&](const MetricSummary& figure, const std::string& where) {
    if (ranks_across_folds(model, figure))
      figures.push_back(concat(words.rank_article, figure.metric->title, where));
  });
  if (figures.empty()) return;
  warnings.push_back(concat(
      join(figures, ", "), figures.size() > 1 ? " rank" : " ranks",
      " exams of different folds together. Holding a patient out lowers the share of ", words.alike,
      " in the training and pulls the figure below chance, so a value below 0.5 shows nothing. "
      "Folds that hold ",
      words.enough, " (--folds 5) avoid this"));
}

// The figures that have a value but no interval, by the reason.
void warn_of_missing_intervals(const TargetReport& report, std::vector<std::string>& warnings) {
  std::map<std::string, std::vector<std::string>> figures;
  for (const MetricSummary& summary : report.models.front().summary) {
    const Estimate& estimate = summary.primary();
    if (summary.metric->shape == Shape::kNone || !estimate.value.defined() ||
        estimate.low.defined())
      continue;
    figures[estimate.low.undefined].push_back(title_of(summary.metric, report.classes.size()));
  }
  for (const auto& [why, names] : figures) {
    warnings.push_back(concat("no interval for ", join(names, ", "), ": ", why));
  }
}

void warn_of_validation_parts(const TargetReport& report, std::vector<std::string>& warnings) {
  std::size_t small = 0, least = kFewValidationPatients;
  for (const FoldChoice& choice : report.choices) {
    small += choice.validation.patients < kFewValidationPatients;
    least = std::min(least, choice.validation.patients);
  }
  if (small == 0) return;
  warnings.push_back(concat("small validation parts: in ", small, " of ",
                            plural(report.choices.size(), "fold"), " fewer than ",
                            kFewValidationPatients, " patients (least: ", least, "). ",
                            words_of(report.scale).uncertain));
}

void warn_of_diverged_models(const TargetReport& report, std::vector<std::string>& warnings) {
  for (const ModelResult& model : report.models) {
    const bool finite = std::ranges::all_of(model.folds, [](const FoldScores& fold) {
      return std::ranges::all_of(fold.exams.predicted, [](double p) { return std::isfinite(p); });
    });
    if (finite) continue;
    warnings.push_back(concat(model.name,
                              " predicts values that are not numbers: its training diverged (try a "
                              "lower learning rate)"));
  }
}

void warn_of_few_patients(const TargetReport& report, std::vector<std::string>& warnings) {
  if (report.data.patients == 0 || report.data.patients >= kFewPatients) return;
  warnings.push_back(concat("few patients: ", report.data.patients,
                            ": intervals are wide, and differences that matter may go unseen"));
}

}  // namespace

bool ranks_across_folds(const ModelResult& model, const MetricSummary& figure) {
  return figure.metric->chance > 0 && figure.primary().value.defined() && !figure.by_fold &&
         model.folds.size() > 1;
}

std::vector<std::string> data_warnings(const TargetReport& report) {
  std::vector<std::string> warnings;
  for (const auto warn : {warn_of_diverged_models, warn_of_held_out_parts, warn_of_undefined_folds,
                          warn_of_ranks_across_folds, warn_of_missing_intervals,
                          warn_of_validation_parts, warn_of_groups, warn_of_few_patients})
    warn(report, warnings);
  return warnings;
}

std::vector<std::string> all_warnings(const TargetReport& report) {
  std::vector<std::string> warnings = report.warnings;
  const std::vector<std::string> of_data = data_warnings(report);
  warnings.insert(warnings.end(), of_data.begin(), of_data.end());
  return warnings;
}

// The run's figures for programs (summary.json) and for the terminal.

namespace {

Json to_json(const FoldChoice::Part& part) {
  return {{"exams", part.exams}, {"patients", part.patients}};
}

Json to_json(const FoldChoice& choice) {
  Json json = {{"repeat", choice.repeat},
               {"fold", choice.fold},
               {"train", to_json(choice.train)},
               {"validation", to_json(choice.validation)},
               {"test", to_json(choice.test)},
               {"temperature", json_number(choice.temperature)},
               {"threshold", json_number(choice.threshold)}};
  if (!choice.setting.is_null()) json["setting"] = choice.setting;
  return json;
}

// True when both hold the same held-out exams in the same folds, so that they can be paired.
bool same_exams(const ModelResult& a, const ModelResult& b) {
  return std::ranges::equal(a.folds, b.folds, [](const FoldScores& x, const FoldScores& y) {
    return x.repeat == y.repeat && x.fold == y.fold && x.patient == y.patient &&
           x.exams.label == y.exams.label && x.exams.number == y.exams.number &&
           x.exams.width == y.exams.width;
  });
}

// Takes what was asked from the rows of options.
struct AskedRows {
  Json json = Json::object();

  template <class Value>
  void number(std::string name, const Value& value, auto&&...) {
    if (value == Value()) return;
    std::ranges::replace(name, '-', '_');
    if constexpr (requires { *value; })
      json[name] = *value;
    else
      json[name] = value;
  }
  void names(const char* name, const auto& value, auto&&...) { number(name, value); }
  void text(const char* name, const auto& value, auto&&...) { number(name, value); }
  void toggle(auto&&...) {}  // changes no figure
};

}  // namespace

Json to_json(const Estimate& estimate) {
  Json json = {{"value", json_number(estimate.value.value)},
               {"low", json_number(estimate.low.value)},
               {"high", json_number(estimate.high.value)}};
  if (!estimate.value.defined()) json["undefined"] = estimate.value.undefined;
  if (estimate.value.defined() && !estimate.low.defined())
    json["no_interval"] = estimate.low.undefined;
  if (!std::isnan(estimate.error_of_fits)) json["error_of_fits"] = estimate.error_of_fits;
  return json;
}

Json to_json(const MetricSummary& summary) {
  Json per_fold = Json::array();
  for (const MetricValue& figure : summary.per_fold) per_fold.push_back(json_number(figure.value));
  Json json = {{"primary", summary.by_fold ? "mean_over_folds" : "pooled"},
               {"mean_over_folds", to_json(summary.mean_over_folds)},
               {"sd_over_folds", json_number(summary.sd_over_folds)},
               {"pooled", to_json(summary.pooled)},
               {"per_fold", per_fold}};
  if (summary.by_fold)
    json["folds"] = {{"with_figure", summary.folds_with_it()}, {"all", summary.per_fold.size()}};
  if (summary.over_classes_present.defined())
    json["mean_over_classes_present"] = summary.over_classes_present.value;
  return json;
}

Json to_json(const ModelResult& model) {
  Json json = {{"name", model.name}, {"metrics", Json::object()}};
  if (!model.frame.empty()) json["frame"] = model.frame;
  if (!model.families.empty()) json["families"] = model.families;
  if (const Taken taken = taken_by(model); taken.all > 0)
    json["taken"] = {{model.sequence_model, taken.all - taken.summaries},
                     {"summary", taken.summaries}};
  for (const MetricSummary& summary : model.summary)
    json["metrics"][std::string(summary.metric->key)] = to_json(summary);
  if (model.difference.empty()) return json;
  Json& differences = json["first_model_minus_this"] = Json::object();
  for (const PairedDifference& difference : model.difference) {
    differences[std::string(difference.metric->key)] = {
        {"mean_over_folds", to_json(difference.mean_over_folds)},
        {"pooled", to_json(difference.pooled)}};
  }
  return json;
}

std::vector<MetricTable> evaluate_models(std::vector<ModelResult>& models, double level,
                                         const std::function<void()>& done) {
  std::vector<MetricTable> tables;
  std::vector<MetricOfFits> of_main;
  for (ModelResult& model : models) {
    if (!same_exams(models.front(), model))
      throw std::logic_error("models to be compared hold out different exams");
    tables.push_back(leave_out_patients(model.folds, level));
    model.summary = summarize(tables.back());
    std::vector<MetricOfFits> own;
    if (models.size() > 1 && !model.is_finished_run) own = figures_of_fits(model.folds, model.fits);
    if (tables.size() > 1)
      model.difference = paired_differences(tables.front(), tables.back(), of_main, own);
    else
      of_main = std::move(own);
    if (done) done();
  }
  return tables;
}

Json questions_json(Questions questions) {
  if (questions.level == 95) questions.level.reset();  // as without the question
  AskedRows asked;
  add_questions(asked, questions);
  return asked.json;
}

Json metrics_json(const TargetReport& report) {
  Json json = {{"target", report.target},
               {"task", report.task},
               {"per_frame", report.per_frame},
               {"classes", report.classes},
               {"split", report.split},
               {"exams", report.data.exams},
               {"patients", report.data.patients},
               {"unlabeled", report.data.unlabeled},
               {"interval",
                {{"level", report.bootstrap.level},
                 {"method", "each patient left out in turn (jackknife), score intervals"},
                 {"unit", "patient"}}},
               {"models", Json::array()},
               {"folds", Json::array()},
               {"verdict", verdict(report)},
               {"warnings", all_warnings(report)}};
  if (const Json asked = questions_json(report.questions); !asked.empty()) json["asked"] = asked;
  for_sections(report, [&](const Section& section) {
    if (section.json != nullptr) section.json(json, report);
  });
  if (report.per_frame) json["masked_frames"] = report.data.masked_frames;
  for (const ModelResult& model : report.models) json["models"].push_back(to_json(model));
  for (const ModelResult& model : report.in_order_and_shuffled)
    json["in_order_and_shuffled"].push_back(to_json(model));
  for (const FoldChoice& choice : report.choices) json["folds"].push_back(to_json(choice));
  return json;
}

const Json& main_model_of(const Json& summary) {
  const Json& first = summary.contains("targets") ? summary.at("targets").at(0) : summary;
  return first.at("models").at(0);
}

std::string fits_text(const Json& model) {
  const Json taken = model.value("taken", Json::object());
  std::vector<std::string> words;
  for (const auto& [name, fits] : taken.items()) words.push_back(concat(name, " ", fits.dump()));
  return join(words, ", ");
}

std::string summary_text(const TargetReport& report) {
  const ModelResult& main = report.models.front();
  const bool one_part = main.folds.size() == 1;
  std::string text =
      concat(main.name, " on '", report.target, "'", report.per_frame ? " of frames" : "",
             report.questions.aggregate.empty() ? "" : " of " + rows_name(report), ", ",
             folds_text(main), ", ", level_text(report), " intervals by patient\n");
  for (const MetricSummary& summary : main.summary) {
    text += concat("  ", padded(title_of(summary.metric, report.classes.size()), 22),
                   interval_text(summary.primary()));
    const bool reason_twice = !summary.primary().value.defined() && !summary.pooled.value.defined();
    if (!one_part && summary.by_fold && !reason_twice)
      text +=
          concat("   all folds together ", interval_text(summary.pooled), present_text(summary));
    if (!one_part && !summary.by_fold) text += "   (all folds together)";
    text += "\n";
  }
  if (const std::string taken = taken_text(main); !taken.empty()) text += taken + "\n";
  const Metric metric = main_metric(report.scale);
  if (report.models.size() > 1) {
    text += concat(title_of(metric, report.classes.size()),
                   report.against.empty() ? " of the controls, and " : " of the others, and ",
                   main.name, " ahead by\n");
  }
  std::size_t width = 8;
  for (const ModelResult& model : report.models) width = std::max(width, model_label(model).size());
  for (const ModelResult& model : report.models) {
    const MetricSummary* figure = find_metric(model.summary, metric);
    const PairedDifference* ahead = find_metric(model.difference, metric);
    if (figure == nullptr || ahead == nullptr) continue;
    text += concat("  ", padded(model_label(model), width + 2),
                   padded(interval_text(figure->primary()), 24), " ",
                   difference_text(ahead->primary()), "\n");
  }
  if (const auto& pair = report.in_order_and_shuffled; !pair.empty())
    text += concat(pair[0].name, " on shuffled frames: ",
                   interval_text(find_metric(pair[1].summary, metric)->primary()), ", and ",
                   pair[0].name, " in order ahead by ",
                   difference_text(find_metric(pair[1].difference, metric)->primary()), "\n");
  for_sections(report, [&](const Section& section) {
    if (section.text != nullptr) text += section.text(report);
  });
  for (const std::string& line : verdict(report)) text += line + "\n";
  return text;
}

}  // namespace coldframe::temporal
