#include "train_temporal/report/claims.h"

#include "train_temporal/report/report_text.h"

namespace coldframe::temporal {
namespace {

bool order_matters(const TargetReport& report) {
  return report.models.front().learns_order;
}

// A model that sees less of the frames.
constexpr Claim baseline(std::string_view control, std::string_view what) {
  return {.control = control,
          .said = Said::kIfLearntOrWorse,
          .figures = "{metric}",
          .better = "{What} gives less than {main} ({figures}).",
          .worse = "{What} gives more than {main} ({figures}): prefer it.",
          .equal = "{What} does as well as {main}, within {margin} ({figures}).",
          .undecided = "Whether {what} does as well as {main} is undecided ({figures}).",
          .what = what};
}

// Differences that are undecided leave the ViT as it was: features that are tuned cost more, and
// must be computed anew.
constexpr Claim kClaims[] = {
    {.control = kAgainst,
     .said = Said::kAlways,
     .figures = "{metric} of {against} on the same exams",
     .better = "{main} is better than {against} ({figures}).",
     .worse = "{main} is worse than {against} ({figures}).",
     .equal = "{main} does as well as {against}, within {margin} ({figures}).",
     .undecided = "Whether {main} is better or worse than {against} is undecided ({figures})."},
    // As simple a model that does better is said first: what a run did not find is no finding.
    {.control = "summary",
     .said = Said::kIfLearntOrWorse,
     .figures = "{metric} of it",
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
     .said = Said::kAlways,
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
     .said = Said::kIfLearnt,
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
     .said = Said::kIfLearnt,
     .figures = "{metric} of it",
     .better = "The features carry part of what {main} found: without them, with {rest} alone, "
               "it does worse ({figures}).",
     .worse = "The features do not carry what {main} found: without them, with {rest} alone, it "
              "does better ({figures}).",
     .equal = "The features do not carry what {main} found: without them, with {rest} alone, it "
              "does as well, within {margin} ({figures}).",
     .undecided = "Whether the features carry what {main} found is undecided: without them, with "
                  "{rest} alone, it may do as well ({figures}).",
     .unexamined = "features rather than times{and covariates} (control 'blank')",
     .arises = order_matters},
    {.control = "covariates",
     .said = Said::kIfLearnt,
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
     .said = Said::kIfLearnt,
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

}  // namespace coldframe::temporal
