// What a verdict says of what was, and was not, found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/text.h"
#include "tests/train_temporal/report/made_report.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

using made::example;
using made::model;
using made::nearly_normal;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Verdict, SaysFirstThatASimplerModelDoesBetter) {
  std::vector<ModelResult> models = {model("gru", 0.6), model("shuffled", 0.6),
                                     model("summary", 2.2)};
  models[2].families = {{"slope"}, {"slope"}, {"mean"}, {"slope"}, {"slope"}};
  const TargetReport report = example(models, {"0", "1"});
  const std::vector<std::string> lines = verdict(report);
  EXPECT_THAT(lines[0],
              HasSubstr("A linear model on summaries of the frames does better than gru"));
  EXPECT_THAT(lines[0], HasSubstr("slope in 4 of 5 fits, mean in 1"));
  EXPECT_THAT(lines[0], HasSubstr("use it (--model summary)"));
  EXPECT_THAT(made::page_of(report),
              HasSubstr("What summary took in each fold: a summary of every feature over the "
                        "frames."));
  EXPECT_THAT(metrics_json(report)["models"][2]["families"][2][0], "mean");
  const TargetReport worse = example({model("gru", 2.2), model("summary", 0.6)}, {"0", "1"});
  EXPECT_THAT(join(verdict(worse), "\n"), HasSubstr("summaries of the frames gives less than gru"));
  EXPECT_THAT(verdict(worse)[0], Not(HasSubstr("summaries")));
}

TEST(Report, SaysHowManyFitsOfAutoAreSummaries) {
  std::vector<ModelResult> models = {model("auto", 1.6)};
  models[0].sequence_model = "gru";
  models[0].families = {{"none"}, {"slope"}, {"none"}, {"slope"}, {"none"}};
  const TargetReport report = example(models, {"0", "1"});
  const std::string said =
      "auto took gru in 3 of 5 fits and a summary of the frames in 2 of 5 fits (slope in each "
      "fit).";
  EXPECT_THAT(summary_text(report), HasSubstr(said));
  EXPECT_THAT(made::page_of(report), HasSubstr(said));
  const Json json = metrics_json(report);
  EXPECT_EQ(json["models"][0]["taken"], Json({{"gru", 3}, {"summary", 2}}));
  EXPECT_EQ(fits_text(main_model_of(json)), "gru 3, summary 2");
}

// Such summaries are the same in any order of frames, and the summary beside auto is what it took.
TEST(Verdict, SaysOfSummariesInAllFitsWhatNeedsNoComparison) {
  std::vector<ModelResult> models = {model("auto", 1.6), model("summary", 1.6),
                                     model("shuffled", 1.5)};
  models[0].learns_order = true;
  models[0].sequence_model = "gru";
  models[0].families = {{"mean"}, {"mean"}, {"maximum"}, {"mean"}, {"standard deviation"}};
  models[0].blind_to_order = true;
  models[1].families = models[0].families;
  TargetReport report = example(models, {"0", "1"});
  const std::string taken = "mean in 3 of 5 fits, standard deviation in 1, maximum in 1";
  const std::string said = join(verdict(report), "\n");
  EXPECT_THAT(said, HasSubstr(concat("auto is a linear model on summaries of the frames: it took "
                                     "one in all 5 fits (",
                                     taken, ").\n")));
  EXPECT_THAT(said, HasSubstr(concat("The order of frames plays no part in what auto found: it "
                                     "took ",
                                     taken, ", and no order changes these.\n")));
  EXPECT_THAT(said, Not(HasSubstr("does as well as auto")));
  EXPECT_THAT(said, Not(HasSubstr("shuffled frames")));
  EXPECT_THAT(summary_text(report), HasSubstr("0.000 [no exam tells them apart]\n"));

  models.pop_back();  // and no shuffled control has to say so
  report = example(models, {"0", "1"});
  EXPECT_THAT(join(verdict(report), "\n"), HasSubstr("plays no part in what auto found"));
  EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("(control 'shuffled')")));
}

// Whatever auto took, its sequence model reads order.
TEST(Verdict, JudgesOrderByTheSequenceModelBesideAuto) {
  std::vector<ModelResult> models = {model("auto", 1.6), model("gru", 1.6)};
  models[0].learns_order = true;
  models[0].sequence_model = "gru";
  models[0].families = {{"mean"}, {"mean"}, {"mean"}, {"mean"}, {"mean"}};
  models[0].blind_to_order = true;
  RunReport run{{example(models, {"0", "1"})}, {}};
  TargetReport& report = run.targets.front();
  report.in_order_and_shuffled = {model("gru", 1.6), model("shuffled", 0.2)};
  evaluate_report(run);
  const Estimate ahead = report.in_order_and_shuffled[1].difference[0].primary();
  EXPECT_GT(ahead.low.value, 0);
  EXPECT_THAT(
      join(verdict(report), "\n"),
      HasSubstr(concat("The order of frames carries part of what gru found: it loses when it "
                       "is trained and tested on shuffled frames (AUROC with shuffled "
                       "frames ",
                       interval_text(report.in_order_and_shuffled[1].summary[0].primary()),
                       ", difference ", difference_text(ahead))));
  EXPECT_THAT(summary_text(report), HasSubstr("gru on shuffled frames: "));
  EXPECT_THAT(made::page_of(report), HasSubstr("gru on shuffled frames (control)"));
  EXPECT_EQ(metrics_json(report)["in_order_and_shuffled"][1]["name"], "shuffled");
  report.models[0].families.assign(5, {kNoFamily});  // auto is gru: one sentence says it
  report.models[0].blind_to_order = false;
  EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("what gru found")));
}

// Terminal, report and METHODS.md, which has the verdict.
TEST(Verdict, SaysAtWhichLevelItClaims) {
  TargetReport report = example({model("gru", 1.6), model("mean", 0.2)}, {"0", "1"});
  const std::string said =
      "Claims take intervals of 99 %, as several are made at once, and those "
      "of 95 % are printed: a difference may be undecided although its "
      "printed interval excludes 0.";
  EXPECT_EQ(claims_text(report), said);
  EXPECT_THAT(verdict(report), ::testing::Contains(said));
  EXPECT_THAT(made::page_of(report), HasSubstr(said));
  EXPECT_THAT(made::page_of(report), Not(HasSubstr("chance among patients does not explain")));
  report.bootstrap.level = 0.99;
  EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("Claims take")));
}

// What predicts the label by itself stands where the result does, and what may be the label in
// other words hides no other.
TEST(Report, SaysUnderResultWhatPredictsTheLabelWithoutImages) {
  TargetReport report = example({model("gru", 1.6)}, {"0", "1"});
  EXPECT_EQ(confound_sentence(report), "");
  const auto reaches = [](double value) {
    return Estimate{MetricValue::of(value), MetricValue::of(value - 0.1),
                    MetricValue::of(value + 0.05)};
  };
  Confounds& confounds = report.confounds;
  confounds = {metric_named("auroc"), 4, 2, 0.05 / 6, {}, {{"probe", false}, {"the date", true}}};
  confounds.found = {{"label", false, false, reaches(0.95), 0.001, true, true},
                     {"severity", false, false, reaches(0.921), 0.001, false, true},
                     {"license", false, false, reaches(0.783), 0.001},
                     {"the frame size", true, false, reaches(0.75), 0.001}};
  const std::string first =
      "`license` alone reaches AUROC 0.783 [0.683, 0.833] on 'abnormal': if it says where exams "
      "come from, hold that out (--folds groups --group license)";
  EXPECT_THAT(confound_sentence(report), ::testing::StartsWith("Without any image " + first));
  EXPECT_THAT(confound_sentence(report),
              HasSubstr("Of 6 columns and properties of the files, 4 predict it."));
  const std::string page = made::page_of(report);
  const std::size_t result = page.find("Without any image"), models = page.find("SD over folds");
  EXPECT_LT(result, models);
  EXPECT_NE(page.find("--group license", result + 400), page.npos);  // in its own section, too
  EXPECT_EQ(metrics_json(report)["confounds"]["said"], confound_sentence(report));

  const std::string text = summary_text(report);
  EXPECT_THAT(text, HasSubstr("`label` tells 'abnormal' of every exam"));
  const std::size_t license = text.find(first), size = text.find("the frame size alone reaches"),
                    severity = text.find(
                        "`severity` alone reaches AUROC 0.921 [0.821, 0.971] on "
                        "'abnormal': it may be the outcome in other words, so leave "
                        "it out of --covariates.");
  EXPECT_LT(license, size);
  EXPECT_LT(size, severity);
  EXPECT_NE(severity, text.npos);
  EXPECT_THAT(text, Not(HasSubstr("--group severity")));
  EXPECT_THAT(text, HasSubstr("Looked at and not found: `probe`, the date.\n"));
}

// A mean over folds counts a small one as a large one.
TEST(Verdict, SaysThatFoldsAreUnlikeInSize) {
  EXPECT_THAT(verdict(example({model("gru", 1.6)}, {"0", "1"}))[0],
              Not(HasSubstr("counts once in this mean")));
  ModelResult gru = model("gru", 1.6);
  gru.folds[2].exams = exams_at(gru.folds[2].exams, std::vector<std::size_t>{0, 1, 2, 3});
  gru.folds[2].patient.resize(4);
  const TargetReport report = example({gru}, {"0", "1"});
  EXPECT_THAT(verdict(report)[0],
              HasSubstr(concat("Each fold counts once in this mean, the smallest with 4 exams as "
                               "the largest with 24; all of them ranked together give ",
                               interval_text(report.models[0].summary[0].pooled), ".")));
}

TEST(Report, SetsMinusSigns) {
  const Estimate below{MetricValue::of(-0.0229), MetricValue::of(-0.03), MetricValue::of(-0.0001)};
  EXPECT_EQ(difference_text(below), "−0.023 [−0.030, 0.000]");
  html::Page page("p", "");
  page.section("s", figures_table({"", "ahead"}, {{"gru", difference_text(below)}}));
  EXPECT_THAT(page.finish(), HasSubstr("<td class=\"num\">−0.023"));
}

// Seven reasons are more than there are marks.
TEST(Report, KeepsReasonsOutOfCells) {
  html::Rows rows;
  for (int i = 0; i < 8; ++i) rows.push_back({concat("0.5 [no interval: reason ", i, "]")});
  html::Page page("p", "");
  page.section("s", figures_table({"AUROC"}, rows));
  const std::string text = page.finish();
  EXPECT_THAT(text, HasSubstr("0.5 ¶"));
  EXPECT_THAT(text, HasSubstr("0.5 **"));
  EXPECT_THAT(text, HasSubstr("†† no interval: reason 7."));
  EXPECT_THAT(text, Not(HasSubstr("[no interval")));
}

// Held-out exams whose features are those of exams of the training are not new patients.
TEST(Verdict, ClaimsNoNewPatientsWhereFeaturesAreCopies) {
  TargetReport report = example({model("gru", 1.6)}, {"0", "1"});
  EXPECT_THAT(verdict(report)[0], HasSubstr("On patients that it has not seen"));
  report.seen = Seen::kCopies;
  EXPECT_THAT(verdict(report)[0], Not(HasSubstr("that it has not seen")));
  EXPECT_THAT(verdict(report)[0], HasSubstr("That is too good"));
}

// Numbers with a few that are far off: R² is below 0, and the ranks are right all the same.
TEST(Verdict, FindsThatRanksWereLearntWhereNumbersAreExtreme) {
  ModelResult result{.name = "gru"};
  CounterRandom random({3});
  for (std::size_t fold = 0; fold < 5; ++fold) {
    FoldScores& one = result.folds.emplace_back();
    one.fold = fold;
    one.exams.width = 1;
    one.exams.scale = Scale::kNumber;
    for (std::size_t p = 0; p < 24; ++p) {
      const double z = nearly_normal(random);
      one.exams.number.push_back(std::exp(3 * z));
      one.exams.predicted.push_back(std::exp(3 * (z + 0.5 * nearly_normal(random))));
      one.exams.label.push_back(0);
      one.exams.decision.push_back(0);
      one.patient.push_back(fold * 24 + p);
    }
  }
  TargetReport report = example({result}, {});
  report.scale = Scale::kNumber;
  report.classes.clear();
  EXPECT_THAT(verdict(report)[0], HasSubstr("it has learnt something"));
  EXPECT_THAT(verdict(report)[0], HasSubstr("Spearman 0."));
  EXPECT_THAT(verdict(report)[0], Not(HasSubstr("nothing shows")));
}

TEST(Report, ShowsWithinWhichLimitsNumbersAgree) {
  ModelResult result{.name = "gru"};
  FoldScores& fold = result.folds.emplace_back();
  fold.exams.width = 1;
  fold.exams.scale = Scale::kNumber;
  for (std::size_t p = 0; p < 25; ++p) {
    const auto number = static_cast<double>(p);
    fold.exams.number.push_back(number);
    fold.exams.predicted.push_back(p == 24 ? std::nan("") : number + (p % 2 == 0 ? 2 : 0));
    fold.exams.label.push_back(0);
    fold.exams.decision.push_back(0);
    fold.patient.push_back(p);
  }
  TargetReport report = example({result}, {"any"});
  EXPECT_THAT(made::page_of(report), Not(HasSubstr("<h2>Agreement</h2>")));
  report.scale = Scale::kNumber;
  report.classes.clear();
  const std::string page = made::page_of(report);
  // 24 differences, 2 and 0 in turn, have the deviation √(24 / 23).
  for (const char* line : {"<h2>Agreement</h2>", "mean difference 1.000",
                           "limit of agreement -1.002", "limit of agreement 3.002"})
    EXPECT_THAT(page, HasSubstr(line));
}

// What several fits of a fold alone say, by their skills.
std::vector<std::vector<FoldScores>> fits(const std::vector<double>& skills) {
  std::vector<std::vector<FoldScores>> all;
  for (const double skill : skills) all.push_back(model("", skill).folds);
  return all;
}

TEST(Verdict, SaysOfClaimsThatTheyAreOfOneSeed) {
  const std::string said = join(
      verdict(example({model("gru", 1.6), model("shuffled", 0.2), model("mean", 1.4)}, {"0", "1"})),
      "\n");
  EXPECT_THAT(said, HasSubstr("The order of frames carries part of what gru found"));
  EXPECT_THAT(said, HasSubstr("; of one seed)"));
  EXPECT_THAT(said, HasSubstr("train with --seeds 3"));
  const std::string undecided =
      join(verdict(example({model("gru", 1.6), model("mean", 1.3, 2, 5, 2)}, {"0", "1"})), "\n");
  EXPECT_THAT(undecided, HasSubstr("is undecided"));
  EXPECT_THAT(undecided, Not(HasSubstr("seed")));
}

TEST(Verdict, ClaimsWhatSeedsAgreeOn) {
  std::vector<ModelResult> models = {model("gru", 1.6), model("shuffled", 0.2)};
  models[0].fits = fits({1.5, 1.6, 1.7});
  models[1].fits = fits({0.2, 0.2, 0.3});
  const std::string said = join(verdict(example(models, {"0", "1"})), "\n");
  EXPECT_THAT(said, HasSubstr("The order of frames carries part of what gru found"));
  EXPECT_THAT(said, Not(HasSubstr("of one seed")));
}

TEST(Verdict, ClaimsNothingThatSeedsDisagreeOn) {
  std::vector<ModelResult> models = {model("gru", 1.6), model("shuffled", 0.6)};
  models[0].fits = fits({0.2, 0.9, 3.0});
  models[1].fits = fits({1.5, 0.6, 0.1});
  const TargetReport report = example(models, {"0", "1"});
  EXPECT_THAT(join(verdict(report), "\n"), HasSubstr("Whether the order of frames carries part"));
  EXPECT_GT(metrics_json(report)["models"][1]["first_model_minus_this"]["auroc"]["mean_over_folds"]
                                ["error_of_fits"],
            0.05);
}

TEST(Groups, MakeIntervalsThatKnowThatTheyDiffer) {
  std::vector<ModelResult> models = {model("gru", 2.0, 2, 3), model("shuffled", 0.2, 2, 3)};
  models[0].folds[2] = model("gru", 0.3, 2, 3).folds[2];
  TargetReport report = example(models, {"0", "1"});
  const Estimate narrow = report.models[0].summary[0].primary();
  report.held_out_by = "site";
  know_that_groups_differ(report);
  const Estimate wide = report.models[0].summary[0].primary();
  EXPECT_LT(wide.low.value, narrow.low.value);  // Student's distribution has two degrees of freedom
  EXPECT_GE(wide.high.value, narrow.high.value);
  EXPECT_LT(wide.claim_low, wide.low.value + 1e-12);
  EXPECT_THAT(verdict(report)[0], HasSubstr("On 3 groups of 'site' that it has not seen"));
  EXPECT_THAT(verdict(report)[0], HasSubstr("the interval is wide"));

  models[0].folds[2] = model("gru", 2.0, 2, 3).folds[2];
  for (double& p : models[0].folds[2].exams.predicted) p = 1 - p;  // one group is the other way
  report = example(models, {"0", "1"});
  report.held_out_by = "site";
  report.subgroups.emplace_back().column = "site";
  report.subgroups.back().values = {"A", "B", "C", "D"};
  know_that_groups_differ(report);
  EXPECT_THAT(verdict(report)[0],
              HasSubstr("On 3 groups of 'site' (of 4 values, those that share a patient are one "
                        "group) that it has not seen"));
  EXPECT_THAT(verdict(report)[0], Not(HasSubstr("the interval is wide")));
  for (const Estimate& any : {report.models[0].summary[0].primary(),        // from 0 to 1
                              report.models[1].difference[0].primary()}) {  // from −1 to 1
    EXPECT_EQ(any.low.undefined, "3 groups do not show how groups differ");
    EXPECT_TRUE(std::isnan(any.claim_low));
  }
}

// One fold holds out none of a class: its AUROC is undefined, and the mean is not over five folds.
TEST(Folds, AreCountedWhereTheyHaveTheFigure) {
  ModelResult gru = model("gru", 1.6, 3);
  FoldScores& last = gru.folds[4];
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < last.exams.size(); ++i)
    if (last.exams.label[i] != 2) left.push_back(i);
  std::vector<std::size_t> patients;
  for (std::size_t i : left) patients.push_back(last.patient[i]);
  last.exams = exams_at(last.exams, left);
  last.patient = patients;
  const TargetReport report = example({gru}, {"a", "b", "c"});
  const MetricSummary& auroc = report.models[0].summary[0];
  ASSERT_EQ(auroc.folds_with_it(), 4u);
  const std::string said =
      concat("mean over 4 of 5 folds; ", fixed(auroc.over_classes_present.value, 3),
             " over all 5 folds, each by the classes that it holds");
  EXPECT_THAT(verdict(report)[0], HasSubstr(said));
  EXPECT_THAT(summary_text(report), HasSubstr("gru on 'abnormal', mean over 4 of 5 folds,"));
  EXPECT_THAT(made::page_of(report), HasSubstr("mean over 4 of 5 folds [95 % interval]"));
  EXPECT_THAT(made::page_of(report), Not(HasSubstr("mean over 5 folds")));
  const Json json = metrics_json(report)["models"][0]["metrics"]["auroc"];
  EXPECT_EQ(json["folds"], Json({{"with_figure", 4}, {"all", 5}}));
  EXPECT_EQ(json["mean_over_classes_present"], auroc.over_classes_present.value);
  RunReport run{{report}, {}};
  evaluate_report(run);
  EXPECT_EQ(run.targets[0].models[0].summary[0].per_fold[4].undefined, "no exam of class 'c'");
  const Json whole = metrics_json(example({model("gru", 1.6, 3)}, {"a", "b", "c"}));
  EXPECT_FALSE(whole["models"][0]["metrics"]["auroc"].contains("mean_over_classes_present"));
}

// Five patients a class: a model without a fault is not too weak where one with a few is not.
TEST(Verdict, CallsNoPerfectModelTooWeak) {
  std::vector<ModelResult> models = {model("gru", 60, 5, 2)};
  for (FoldScores& fold : models[0].folds) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < fold.exams.size(); ++i)
      if (fold.exams.label[i] != 4 || i < 15) left.push_back(i);
    std::vector<std::size_t> patients;
    for (std::size_t i : left) patients.push_back(fold.patient[i]);
    fold.exams = exams_at(fold.exams, left);
    fold.patient = patients;
  }
  const TargetReport report = example(models, {"a", "b", "c", "d", "e"});
  const Estimate auroc = report.models[0].summary[0].primary();
  ASSERT_EQ(auroc.value.value, 1);
  EXPECT_GT(auroc.low.value, 0.85);
  EXPECT_THAT(verdict(report)[0], Not(HasSubstr("too weak")));
}

TEST(Groups, AreTooFewWhereThereAreTwo) {
  TargetReport report = example({model("gru", 2.0, 2, 2)}, {"0", "1"});
  report.held_out_by = "site";
  know_that_groups_differ(report);
  EXPECT_THAT(report.models[0].summary[0].primary().low.undefined,
              HasSubstr("2 groups do not show how groups differ"));
}

}  // namespace
}  // namespace coldframe::temporal
