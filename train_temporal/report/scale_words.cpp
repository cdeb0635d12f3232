#include "train_temporal/report/scale_words.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

std::string about_classes(const TargetReport& report) {
  if (report.classes.size() > 2)
    return "AUROC, AUPRC and F1 are means over classes against the rest. Kappa is Cohen's, 0 by "
           "chance. A calibrated model has ECE 0.";
  const auto& own = report.questions.threshold;
  return concat("Sensitivity, specificity, F1, accuracy and kappa are at the threshold ",
                own ? exact(*own) + " that was given" : "that the validation part chose (Youden)",
                ". A calibrated model has ECE 0, slope 1 and intercept 0.");
}

std::string about_grades(const TargetReport&) {
  return "Decisions are medians of the predicted distribution over classes. Quadratic kappa is 0 "
         "by chance; the MAE is in steps between classes. A calibrated model has ECE 0.";
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

}  // namespace coldframe::temporal
