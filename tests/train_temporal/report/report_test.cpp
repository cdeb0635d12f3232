#include "train_temporal/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "common/text/text.h"
#include "tests/train_temporal/report/made_report.h"
#include "train_temporal/evaluate/metrics.h"
#include "train_temporal/report/report_text.h"

namespace coldframe::temporal {
namespace {

using made::example;
using made::model;
using made::nearly_normal;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TargetReport example() {
  return example({model("gru", 1.6), model("mean", 0.9), model("single", 0.2),
                  model("shuffled", 0.8), model("clock", 0.5)},
                 {"healthy", "ill"});
}

// The pictures can be looked at in TEST_TMPDIR or /tmp.
void keep(const std::string& page, const std::string& name) {
  std::ofstream(::testing::TempDir() + name) << page;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Report, ShowsEveryPartOfABinaryRun) {
  const std::string page = made::page_of(example());
  keep(page, "coldframe_report_binary.html");
  for (const char* heading :
       {"Result", "Warnings", "Models and controls", "Decisions", "Calibration", "Training", "Data",
        "Splits", "Configuration", "Features", "Time and memory"}) {
    EXPECT_THAT(page, HasSubstr(concat("<h2>", heading, "</h2>")));
  }
  EXPECT_GE(count(page, "<svg"), 9u);
  EXPECT_THAT(page, HasSubstr("4 exams of 124 without a label"));
  EXPECT_THAT(page,
              Not(AnyOf(HasSubstr("src=\"http"), HasSubstr("href=\"http"), HasSubstr("url("))));
  EXPECT_THAT(page, Not(AnyOf(HasSubstr(">nan<"), HasSubstr("-nan"), HasSubstr("inf,"))));
}

TEST(Report, ShowsManyClasses) {
  TargetReport report = example({model("gru", 1.5, 4), model("clock", 0.1, 4)},
                                {"regular", "covid", "pneumonia", "other"});
  RunReport run{{report}, {}};
  evaluate_report(run);
  const std::string page = report_page(run).finish();
  keep(page, "coldframe_report_classes.html");
  EXPECT_THAT(page, HasSubstr("<h2>Each class against the rest</h2>"));
  EXPECT_THAT(page, HasSubstr("<td>macro AUROC</td>"));
  EXPECT_THAT(page, HasSubstr("<td>pneumonia</td>"));
  EXPECT_THAT(page, Not(HasSubstr("Sensitivity")));
  const Json summary = metrics_json(run);
  const Json& pneumonia = summary["by_class"][2];
  EXPECT_EQ(pneumonia["class"], "pneumonia");
  EXPECT_EQ(pneumonia["exams"], 30);
  const Estimate& auroc = run.targets[0].by_class[2].summary[0].primary();
  EXPECT_EQ(pneumonia["metrics"]["auroc"]["mean_over_folds"]["low"], auroc.low.value);
  EXPECT_THAT(page, HasSubstr(interval_text(auroc)));
  const std::string said = summary_text(run);
  EXPECT_THAT(said, HasSubstr(concat("  pneumonia  AUROC ", interval_text(auroc))));
  EXPECT_THAT(said, HasSubstr("reaches a macro AUROC of "));
}

// The terminal has five of many classes, those that are found least often.
TEST(Report, NamesTheClassesOfTheLowestRecallOnTheTerminal) {
  RunReport run{{example({model("gru", 1.5, 8)}, {"a", "b", "c", "d", "e", "f", "g", "h"})}, {}};
  evaluate_report(run);
  const TargetReport& report = run.targets[0];
  const std::string said = summary_text(run);
  EXPECT_THAT(said, HasSubstr("Classes against the rest, the 5 of 8 with the lowest recall"));
  const auto recall = [&](std::size_t c) {
    return find_metric(report.by_class[c].summary, metric_named("recall"))->primary().value.value;
  };
  double least_hidden = 1, most_shown = 0;
  for (std::size_t c = 0; c < 8; ++c) {
    const bool shown = said.find(concat("\n  ", report.classes[c], "         AUROC ")) != said.npos;
    (shown ? most_shown : least_hidden) =
        shown ? std::max(most_shown, recall(c)) : std::min(least_hidden, recall(c));
  }
  EXPECT_LE(most_shown, least_hidden);
  EXPECT_GT(most_shown, 0);
  EXPECT_LT(least_hidden, 1);
}

TEST(Report, LeavesTwoClassesToSensitivityAndSpecificity) {
  RunReport run{{example({model("gru", 1.5)}, {"healthy", "ill"})}, {}};
  evaluate_report(run);
  EXPECT_TRUE(run.targets[0].by_class.empty());
  EXPECT_FALSE(metrics_json(run).contains("by_class"));
  const std::string page = report_page(run).finish();
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("Each class against"), HasSubstr("macro"))));
}

TEST(Report, ShowsASingleHeldOutPartOfASingleModel) {
  TargetReport report = example({model("gru", 1.5, 2, 1)}, {"0", "1"});
  const std::string page = made::page_of(report);
  keep(page, "coldframe_report_holdout.html");
  EXPECT_THAT(page, HasSubstr("one held-out part"));
  EXPECT_THAT(page, Not(HasSubstr("SD over folds")));
  EXPECT_THAT(page, Not(HasSubstr("Models and controls")));
  EXPECT_THAT(page,
              HasSubstr("Not examined: how much of what gru found comes from the order of frames"));
  report.tuned = true;
  EXPECT_THAT(made::page_of(report),
              HasSubstr("comes from tuning the ViT (control &#39;frozen&#39;), or from the order"));
}

TEST(Report, EscapesWhatAColumnHolds) {
  TargetReport report = example({model("gru", 1.5)}, {"<script>a", "b&\"c\""});
  report.subtitle = "<i>run</i>";
  report.configuration = {{"<k>", "<v>"}};
  const std::string page = made::page_of(report);
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("<script>a"), HasSubstr("<i>"), HasSubstr("<k>"),
                              HasSubstr("<v>"), HasSubstr("b&\"c"))));
}

TEST(Report, NamesAFigureThatConstantPredictionsFix) {
  const auto between = [](double low, double high) {
    return interval_text({MetricValue::of(0.5), MetricValue::of(low), MetricValue::of(high)});
  };
  EXPECT_EQ(between(0.5, 0.5), "0.500 [all exams have one score]");
  EXPECT_EQ(between(0.25, 0.75), "0.500 [0.250, 0.750]");
}

TEST(Report, SaysBelowATableWhyFiguresHaveNoInterval) {
  const Estimate known{MetricValue::of(0.5), MetricValue::of(0.25), MetricValue::of(0.75)};
  const auto without = [](const char* why) {
    return interval_text({MetricValue::of(0.25), MetricValue::none(why), MetricValue::none(why)});
  };
  const std::string html =
      figures_table({"", "a", "b"}, {{"x", interval_text(known), without("<few>")},
                                     {"y", without("one [sided]"), without("<few>")}})
          .html;
  const auto cell = [](const char* column, const char* text) {
    return concat("<td class=\"num\" data-name=\"", column, "\">", text, "</td>");
  };
  EXPECT_THAT(html,
              HasSubstr("<td>x</td>" + cell("a", "0.500 [0.250, 0.750]") + cell("b", "0.250 *")));
  EXPECT_THAT(html, HasSubstr(cell("a", "0.250 †") + cell("b", "0.250 *")));
  EXPECT_THAT(html, HasSubstr("<p class=\"note\">* no interval: &lt;few&gt;.</p>\n"
                              "<p class=\"note\">† no interval: one [sided].</p>"));
}

TEST(Report, ShowsWhichEpochsAreKeptAndWhichFitsOverfit) {
  TargetReport report = example({model("gru", 1.5, 2, 1)}, {"well", "ill"});
  report.curves.assign(2, {});
  report.curves[0] = {0, 0, 0, {0.7, 0.5, 0.3}, {0.6, 0.5, 0.6}, 1};
  report.curves[1] = {0, 0, 1, {0.7, 0.5, 0.3}, {0.6, 0.5, 0.51}, 1};
  const std::string drawn = made::page_of(report);
  EXPECT_THAT(drawn, HasSubstr("kept epoch of each fit: 2, 0.5"));
  EXPECT_THAT(drawn, HasSubstr("1 of 2 fits overfit"));
  report.curves.erase(report.curves.begin());
  EXPECT_THAT(made::page_of(report), Not(HasSubstr("overfit after")));
}

TEST(Report, SurvivesModelsThatSayNothing) {
  ModelResult broken = model("gru", 1.0), one_class = model("gru", 1.0);
  for (FoldScores& fold : broken.folds) fold.exams.predicted.assign(48, std::nan(""));
  for (FoldScores& fold : one_class.folds) fold.exams.label.assign(24, 1);
  for (const ModelResult& bad : {broken, one_class}) {
    const TargetReport report = example({bad}, {"0", "1"});
    EXPECT_THAT(made::page_of(report), HasSubstr("undefined"));
    EXPECT_THAT(verdict(report)[0], HasSubstr("is undefined"));
    EXPECT_FALSE(data_warnings(report).empty());
    EXPECT_TRUE(metrics_json(report)["models"][0]["metrics"]["auroc"]["pooled"]["value"].is_null());
    EXPECT_THAT(summary_text(report), Not(ContainsRegex("undefined:[^\n]*undefined:")));
  }
}

struct VerdictCase {
  const char* control;
  double main, other;
  const char* says;
};

TEST(Verdict, SaysWhatCarriesTheResult) {
  const VerdictCase cases[] = {
      {"shuffled", 1.6, 0.2, "The order of frames carries part of what gru found"},
      {"shuffled", 1.0, 1.0, "it does as well, within ±0.05, on shuffled frames"},
      {"shuffled", 0.6, 2.2, "does better on shuffled frames"},
      {"single", 1.6, 0.2, "The middle frame gives less than gru"},
      {"single", 1.0, 1.0, "The middle frame does as well as gru, within ±0.05"},
      {"mean", 0.6, 2.2, "The mean of the frames gives more than gru"},
      {"clock", 1.6, 0.0, "gru knows more than"},
      {"clock", 2.0, 0.9, "These alone are better than chance, though"},
      {"clock", 1.0, 1.0, "alone do as well, within ±0.05"},
      {"blank", 1.6, 0.0, "The features carry part of what gru found"},
      {"blank", 1.0, 1.0, "The features do not carry what gru found"},
      {"blank", 1.0, 2.2, "does better"},
      {"clock", 0.6, 2.2, "alone do better"},
      {"frozen", 1.6, 0.2, "Tuning the ViT paid: gru does worse without"},
      {"frozen", 1.0, 1.0, "did not pay, gru does as well without, within ±0.05"},
      {"frozen", 0.6, 2.2, "Tuning the ViT did harm"},
  };
  for (const VerdictCase& one : cases) {
    const TargetReport report =
        example({model("gru", one.main), model(one.control, one.other)}, {"0", "1"});
    EXPECT_THAT(join(verdict(report), "\n"), HasSubstr(one.says))
        << one.control << " " << one.main << " " << one.other;
  }
}

// Patients enough to see no difference, too few to exclude one that matters.
TEST(Verdict, DoesNotTakeWhatIsUndecidedForEqual) {
  const std::pair<const char*, const char*> cases[] = {
      {"shuffled", "Whether the order of frames carries part of what gru found is undecided"},
      {"single", "Whether the middle frame does as well as gru is undecided"},
      {"blank", "Whether the features carry what gru found is undecided"},
      {"clock", "file type do is undecided"},
      {"frozen", "Tuning the ViT is not shown to have paid"}};
  for (const auto& [control, says] : cases) {
    const TargetReport report =
        example({model("gru", 1.0), model(control, 1.0, 2, 5, /*seed=*/2)}, {"0", "1"});
    EXPECT_THAT(join(verdict(report), "\n"), HasSubstr(says));
  }
}

TEST(Verdict, SaysNothingOfControlsWhereNothingWasLearnt) {
  const std::string text = join(
      verdict(example({model("gru", 0.0), model("shuffled", 0.0), model("mean", 1.5)}, {"0", "1"})),
      "\n");
  EXPECT_THAT(text, HasSubstr("nothing shows that it has learnt"));
  EXPECT_THAT(text, Not(HasSubstr("order of frames does not")));
  EXPECT_THAT(text, HasSubstr("The mean of the frames gives more than gru"));
}

TEST(Verdict, ClaimsNothingWorseThanChanceBy95Percent) {
  TargetReport report = example({model("gru", -1.0), model("clock", -1.0)}, {"0", "1"});
  Estimate& figure = report.models[0].summary[0].mean_over_folds;
  figure = {MetricValue::of(0.4), MetricValue::of(0.32), MetricValue::of(0.49), 0.3, 0.51};
  EXPECT_THAT(verdict(report)[0], AllOf(Not(HasSubstr("worse than chance")), HasSubstr("At 99 %")));
  figure.claim_low = 0.34, figure.claim_high = 0.46;
  EXPECT_THAT(verdict(report)[0], HasSubstr("worse than chance"));
}

// Of five folds half the interval's width counts 1.5 times: √(1 + 5 / 4).
TEST(Verdict, KnowsThatFoldsShareTrainingExams) {
  for (const std::size_t folds : {5, 1}) {
    TargetReport report = example({model("gru", 1.6, 2, folds)}, {"0", "1"});
    Estimate& figure = report.models[0].summary[0].mean_over_folds;
    figure = {MetricValue::of(0.65), MetricValue::of(0.57), MetricValue::of(0.72), 0.56, 0.74};
    EXPECT_THAT(verdict(report)[0], Not(HasSubstr("too weak")));
    figure.claim_low = 0.53;
    EXPECT_EQ(verdict(report)[0].find("wider as folds share exams") != std::string::npos,
              folds == 5);
    figure = {MetricValue::of(0.35), MetricValue::of(0.28), MetricValue::of(0.43), 0.26, 0.47};
    EXPECT_EQ(verdict(report)[0].find("worse than chance") != std::string::npos, folds == 1);
    // A figure near its limit: the long side of the interval does not count.
    figure = {MetricValue::of(0.92), MetricValue::of(0.67), MetricValue::of(0.985), 0.55, 0.99};
    EXPECT_THAT(verdict(report)[0], Not(HasSubstr("too weak")));
  }
}

TEST(Verdict, FindsMetadataTellingBy99Percent) {
  TargetReport report = example({model("gru", 2.0), model("clock", 0.9)}, {"0", "1"});
  report.models[1].summary[0].mean_over_folds.claim_low = 0.49;
  EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("These alone")));
}

TEST(Verdict, TakesSmallDifferencesForNone) {
  TargetReport report = example({model("gru", 1.6), model("shuffled", 1.6)}, {"0", "1"});
  report.models[1].difference[0].mean_over_folds = {MetricValue::of(0.03), MetricValue::of(0.02),
                                                    MetricValue::of(0.04), 0.015, 0.045};
  EXPECT_THAT(join(verdict(report), "\n"), HasSubstr("does as well, within ±0.05"));
}

// As where each patient is a fold.
TEST(Verdict, DoesNotTakeFoldsRankedTogetherForWorseThanChance) {
  TargetReport report = example({model("gru", -1.5)}, {"0", "1"});
  report.models[0].summary[0].by_fold = false;
  EXPECT_THAT(verdict(report)[0],
              AllOf(Not(HasSubstr("worse than chance")), HasSubstr("nothing shows")));
  EXPECT_THAT(data_warnings(report),
              ::testing::Contains(HasSubstr("pulls the figure below chance")));
}

TEST(Verdict, ClaimsByIntervalsOf99Percent) {
  TargetReport report = example({model("gru", 1.6), model("shuffled", 0.2)}, {"0", "1"});
  report.models[0].summary[0].mean_over_folds = {MetricValue::of(0.65), MetricValue::of(0.52),
                                                 MetricValue::of(0.77), 0.48, 0.8};
  EXPECT_THAT(verdict(report)[0], HasSubstr("too weak"));
  EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("order of frames")));
  report = example({model("gru", 1.6), model("shuffled", 0.2)}, {"0", "1"});
  report.models[1].difference[0].mean_over_folds = {MetricValue::of(0.2), MetricValue::of(0.02),
                                                    MetricValue::of(0.36), -0.04, 0.4};
  EXPECT_THAT(join(verdict(report), "\n"), HasSubstr("is undecided"));
}

TEST(Verdict, SaysWhenItMayBeChance) {
  const TargetReport chance = example({model("gru", 0.0)}, {"0", "1"});
  EXPECT_THAT(verdict(chance)[0], HasSubstr("nothing shows that it has learnt"));
  EXPECT_THAT(verdict(example({model("gru", 1.5)}, {"0", "1"}))[0], Not(HasSubstr("chance")));
  EXPECT_THAT(verdict(example({model("gru", -1.5)}, {"0", "1"}))[0],
              HasSubstr("worse than chance"));
}

TEST(DataWarnings, NameSmallAndOneSidedParts) {
  TargetReport report = example({model("gru", 1.0)}, {"0", "1"});
  EXPECT_TRUE(data_warnings(report).empty());
  report.data.patients = 20;
  report.choices[2].validation.patients = 3;
  report.models[0].folds[4].exams.label.assign(24, 0);
  EXPECT_THAT(data_warnings(report),
              ::testing::ElementsAre(HasSubstr("fold 4 holds out none of the exams of class '1'"),
                                     AllOf(HasSubstr("in 1 of 5 folds"), HasSubstr("least: 3")),
                                     HasSubstr("few patients: 20")));
}

TEST(MetricsJson, HoldsEveryFigure) {
  const TargetReport report = example();
  const Json json = metrics_json(report);
  ASSERT_EQ(json["models"].size(), 5u);
  const Json& auroc = json["models"][0]["metrics"]["auroc"];
  EXPECT_EQ(auroc["mean_over_folds"]["value"],
            report.models[0].summary[0].mean_over_folds.value.value);
  EXPECT_EQ(auroc["per_fold"].size(), 5u);
  EXPECT_FALSE(json["models"][0].contains("first_model_minus_this"));
  EXPECT_GT(json["models"][4]["first_model_minus_this"]["auroc"]["mean_over_folds"]["low"], 0.0);
  EXPECT_EQ(json["folds"].size(), 5u);
  EXPECT_EQ(json["warnings"].size(), 1u);
}

TEST(SummaryText, NamesTheFiguresAndTheControls) {
  const std::string text = summary_text(example());
  for (const char* part : {"gru on 'abnormal', mean over 5 folds", "AUROC", "all folds together",
                           "single", "shuffled", "clock", "Brier score"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(EvaluateModels, RefusesModelsWithOtherExams) {
  std::vector<ModelResult> models = {model("gru", 1.0), model("mean", 1.0)};
  models[1].folds[0].exams.label[0] = 1 - models[1].folds[0].exams.label[0];
  EXPECT_THROW(evaluate_models(models), std::logic_error);
}

TEST(MeanCurves, KeepTheAreaUnderTheCurve) {
  const FoldScores fold = model("gru", 1.0).folds[0];
  const OneVsRest exams = one_vs_rest(fold.exams, 1);
  std::vector<double> grid;
  constexpr std::size_t kSteps = 20000;
  for (std::size_t i = 0; i < kSteps; ++i) {
    grid.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(kSteps));
  }
  double under_roc = 0, under_pr = 0;
  for (double y : roc_at(roc_curve(exams.score, exams.positive), grid)) under_roc += y / kSteps;
  for (double y : precision_at(precision_recall_curve(exams.score, exams.positive), grid)) {
    under_pr += y / kSteps;
  }
  EXPECT_NEAR(under_roc, auroc(exams.score, exams.positive).value, 1e-3);
  EXPECT_NEAR(under_pr, average_precision(exams.score, exams.positive).value, 1e-3);
}

TEST(Verdict, SaysNothingOfTheOrderWhenTheMainModelDoesNotSeeIt) {
  for (const char* main : {"mean", "single", "clock"}) {
    const TargetReport report = example({model(main, 1.6), model("shuffled", 0.4)}, {"0", "1"});
    EXPECT_THAT(join(verdict(report), "\n"), Not(HasSubstr("order of frames"))) << main;
  }
}

TEST(Verdict, ClaimsUnseenPatientsOnlyWhereTheyAre) {
  TargetReport report = example({model("gru", 1.5)}, {"0", "1"});
  EXPECT_THAT(verdict(report)[0], HasSubstr("On patients that it has not seen"));
  report.seen = Seen::kUnknown;
  EXPECT_THAT(verdict(report)[0], HasSubstr("On patients of whom it is not known whether"));
}

}  // namespace
}  // namespace coldframe::temporal
