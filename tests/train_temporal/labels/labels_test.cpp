#include "train_temporal/labels/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::temporal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::vector<cache::ExamInfo> exams_with(const std::vector<std::string>& values,
                                        const std::string& column = "label") {
  std::vector<cache::ExamInfo> exams;
  for (const std::string& value : values) {
    cache::ExamInfo exam;
    exam.id = "e" + std::to_string(exams.size());
    exam.columns = {{"device", "x"}, {column, value}};
    exams.push_back(exam);
  }
  return exams;
}

Labels from_cache(const std::vector<std::string>& values, const std::string& positive = "") {
  return labels_from_cache(exams_with(values), {"label", positive, {}});
}

TEST(Labels, OrdersClassesNaturally) {
  const Labels labels = from_cache({"grade10", "grade2", "grade1", "grade2"});
  EXPECT_THAT(labels.classes, ElementsAre("grade1", "grade2", "grade10"));
  EXPECT_THAT(labels.value, ElementsAre(2, 1, 0, 1));
  EXPECT_EQ(labels.positive, "");
}

TEST(Labels, TakesOneAsPositiveOfZeroAndOne) {
  const Labels labels = from_cache({"1", "0", "1"});
  EXPECT_EQ(labels.positive, "1");
  EXPECT_THAT(labels.value, ElementsAre(1, 0, 1));
  EXPECT_TRUE(labels.notes.empty());
}

TEST(Labels, TakesTheLastOfTwoWordsAsPositiveAndSaysSo) {
  const Labels labels = from_cache({"ill", "healthy"});
  EXPECT_EQ(labels.positive, "ill");
  ASSERT_EQ(labels.notes.size(), 1u);
  EXPECT_THAT(labels.notes[0], HasSubstr("positive class: 'ill'"));
}

TEST(Labels, PutsTheChosenPositiveLast) {
  const Labels labels = from_cache({"ill", "healthy"}, "healthy");
  EXPECT_THAT(labels.classes, ElementsAre("ill", "healthy"));
  EXPECT_THAT(labels.value, ElementsAre(0, 1));
  EXPECT_EQ(from_cache({"1.0", "0.0"}, "0").classes.back(), "0");
  EXPECT_EQ(from_cache({"1", "0"}, "0.0").classes.back(), "0");
}

TEST(Labels, TakesOneNumberForOneClassHoweverSpelt) {
  const Labels labels = from_cache({"1.0", "0", "1", "", "0.0", "-0"});
  EXPECT_THAT(labels.classes, ElementsAre("0", "1"));
  EXPECT_THAT(labels.value, ElementsAre(1, 0, 1, kUnlabeled, 0, 0));
  EXPECT_THAT(from_cache({"0.5", "2.0", "x"}).classes, ElementsAre("0.5", "2.0", "x"));
  EXPECT_THAT(from_cache({"1.50", "2.5", "1.5"}).classes, ElementsAre("1.5", "2.5"));
}

TEST(Labels, TakesSpellingsThatDifferInCaseOrSpacesAsOneClass) {
  const Labels labels = from_cache({"Yes", "yes ", "no", "yes", "NO", "no"}, "YES");
  EXPECT_THAT(labels.classes, ElementsAre("no", "yes"));
  EXPECT_THAT(labels.value, ElementsAre(1, 1, 0, 1, 0, 0));
  EXPECT_THAT(labels.warnings, ElementsAre(AllOf(HasSubstr("column 'label'"),
                                                 HasSubstr("one, 'NO' as 'no', 'Yes' as 'yes';"))));
  EXPECT_EQ(class_counts(labels), "'no' 3, 'yes' 3");
  EXPECT_THAT(from_cache({"007", "7", "8"}).classes, ElementsAre("007", "7", "8"));
}

TEST(Labels, MasksAndCountsEmptyFields) {
  const Labels labels = from_cache({"a", "", " ", "nan", "NA", "n/a", "b"});
  EXPECT_EQ(labels.unlabeled, 5u);
  EXPECT_EQ(labels.labeled(), 2u);
  EXPECT_THAT(labels.value, ElementsAre(0, -1, -1, -1, -1, -1, 1));
  EXPECT_THAT(labels.notes.back(), HasSubstr("5 exams of 7 without a label"));
}

TEST(Labels, AreAskedAboutWhereAWordMayMeanThatThereIsNone) {
  const auto read = [](const std::vector<std::string>& values, UnclearLabels unclear,
                       std::vector<std::string> known = {}) {
    LabelOptions options{"label", "", std::move(known)};
    options.unclear = unclear;
    return labels_from_cache(exams_with(values), options);
  };
  for (const char* word : {"None", "null", "-", "?", ".", "unknown", "<NA>", "#N/A", "\u2013"}) {
    const std::vector<std::string> values = {"a", word, "b", "b", "NA"};
    try {
      read(values, UnclearLabels::kAsk);
      ADD_FAILURE() << word;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'label' holds '" + std::string(word) + "' (1)"),
                                      HasSubstr("--unclear-labels missing")));
    }
    const Labels missing = read(values, UnclearLabels::kMissing);
    EXPECT_THAT(missing.classes, ElementsAre("a", "b"));
    EXPECT_EQ(missing.unlabeled, 2u);
    EXPECT_THAT(missing.notes.front(), AllOf(HasSubstr("'NA' (1)"), HasSubstr(word)));
    const Labels classes = read(values, UnclearLabels::kClasses);
    EXPECT_EQ(classes.classes.size(), 3u);
    EXPECT_EQ(classes.unlabeled, 1u);
    EXPECT_EQ(read(values, UnclearLabels::kAsk, {"a", "b", word}).unlabeled, 1u);
    EXPECT_THROW(read({"1.5", word, "2.5"}, UnclearLabels::kAsk), ConfigError);
    EXPECT_EQ(read({"1.5", word, "2.5", "3.5"}, UnclearLabels::kMissing).task, Task::kRegression);
  }
}

TEST(Labels, ThatFloat32CannotSquareAreRefusedWithTheirExam) {
  for (const char* number : {"1e30", "-1e30", "1e308", "2e18"}) {
    try {
      from_cache({"0.5", number, "1.5"});
      ADD_FAILURE() << number;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("exam 'e1': column 'label' holds"),
                                      HasSubstr("up to 1e+18 can be learnt")));
    }
  }
  EXPECT_EQ(from_cache({"0.5", "1e18", "1.5"}).task, Task::kRegression);
  EXPECT_THAT(from_cache({"1e30", "1", "1"}).classes, ElementsAre("1", "1e+30"));
}

struct Bad {
  const char* name;
  std::vector<std::string> values;
  const char* target;
  const char* positive;
  const char* message;
  ExitCode code;
};

TEST(Labels, RefuseWhatCannotBeLearnt) {
  std::vector<std::string> many;
  for (int i = 0; i < 70; ++i) many.push_back("id" + std::to_string(i));
  const Bad cases[] = {
      {"no such column", {"a", "b"}, "grade", "", "it has device, label", ExitCode::kUsage},
      {"a slip", {"a", "b"}, "lable", "", "label; did you mean 'label'?", ExitCode::kUsage},
      {"one class", {"a", "a", ""}, "label", "", "every label is 'a'", ExitCode::kFatal},
      {"one number", {"1", "1.0"}, "label", "", "every label is '1'", ExitCode::kFatal},
      {"one fraction", {"1.5", "1.50"}, "label", "", "every label is '1.5'", ExitCode::kFatal},
      {"one class in two spellings",
       {"K", "k", "K"},
       "label",
       "",
       "'k' as 'K'; if they differ on",
       ExitCode::kFatal},
      {"all empty", {"", "nan"}, "label", "", "is empty for every exam", ExitCode::kFatal},
      {"no exams", {}, "label", "", "the cache has no column 'label'", ExitCode::kUsage},
      {"an identifier", many, "label", "", "70 different values", ExitCode::kFatal},
      {"positive unknown", {"a", "b"}, "label", "c", "those are 'a', 'b'", ExitCode::kUsage},
      {"positive of three", {"a", "b", "c"}, "label", "c", "needs two classes", ExitCode::kUsage},
  };
  for (const Bad& bad : cases) {
    try {
      labels_from_cache(exams_with(bad.values), {bad.target, bad.positive, {}});
      ADD_FAILURE() << bad.name << ": no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(bad.message)) << bad.name;
      EXPECT_EQ(error.exit_code(), bad.code) << bad.name;
    }
  }
}

TEST(Labels, KeepTheClassesOfATrainedModel) {
  const LabelOptions options{"label", "", {"ill", "healthy"}};
  const Labels labels = labels_from_cache(exams_with({"ill", "ill"}), options);
  EXPECT_THAT(labels.value, ElementsAre(0, 0));
  EXPECT_EQ(labels.positive, "healthy");
  const Labels spelt = labels_from_cache(exams_with({"Ill", "HEALTHY"}), options);
  EXPECT_THAT(spelt.value, ElementsAre(0, 1));
  EXPECT_THAT(spelt.warnings, ElementsAre(HasSubstr("'HEALTHY' as 'healthy', 'Ill' as 'ill'")));
  EXPECT_THROW(labels_from_cache(exams_with({"dead"}), options), DataError);
  EXPECT_THROW(labels_from_cache(exams_with({""}), options), DataError);
}

CsvTable csv(const std::string& text) {
  return parse_csv(text, "/home/somebody/labels.csv");
}

TEST(Labels, TakeAClassOfATrainedModelAsItIsSpelt) {
  const LabelOptions words{"label", "", {"1.0", "none"}}, numbers{"label", "", {"0", "1"}};
  EXPECT_THAT(labels_from_cache(exams_with({"1.0", " 1.0 "}), words).value, ElementsAre(0, 0));
  EXPECT_THAT(labels_from_cache(exams_with({"1.0", "0.0", ""}), numbers).value,
              ElementsAre(1, 0, kUnlabeled));
  const auto exams = exams_with({"", ""});
  EXPECT_THAT(labels_from_csv(exams, csv("exam,label\ne0,1.0\ne1,1.0\n"), words).value,
              ElementsAre(0, 0));
  EXPECT_THAT(labels_from_csv(exams, csv("exam,label\ne0,1.0\ne1,0.0\n"), numbers).value,
              ElementsAre(1, 0));
}

TEST(Labels, LeaveClassesOutAndTakeClassesTogether) {
  LabelOptions options{"label", "", {}};
  options.changes = {{{"viral"}, ""}, {{"Mild", "severe"}, "ill"}};
  const Labels labels =
      labels_from_cache(exams_with({"well", "mild", "viral", "severe", "Viral ", ""}), options);
  EXPECT_THAT(labels.classes, ElementsAre("ill", "well"));
  EXPECT_THAT(labels.value, ElementsAre(1, 0, kUnlabeled, 0, kUnlabeled, kUnlabeled));
  EXPECT_THAT(labels.notes, Contains("'label' without 'viral': 2 labels"));
  EXPECT_THAT(labels.notes, Contains("'label' 'Mild' and 'severe' as 'ill': 2 labels"));
  EXPECT_EQ(target_from_json(to_json(static_cast<const Target&>(labels))), labels);

  LabelOptions trained{"label", "", labels.classes};
  trained.changes = labels.changes;
  const Labels elsewhere = labels_from_cache(exams_with({"well", "severe", "viral"}), trained);
  EXPECT_THAT(elsewhere.value, ElementsAre(1, 0, kUnlabeled));
}

TEST(Labels, RefuseToChangeClassesThatAreNotThere) {
  LabelOptions options{"label", "", {}};
  options.changes = {{{"viral"}, ""}};
  EXPECT_THAT(message_of<ConfigError>([&] {
                labels_from_cache(exams_with({"a", "b"}), options);
              }),
              HasSubstr("no class 'viral' to leave out or to merge; it has 'a', 'b'"));
  options.changes = {{{"1.5"}, ""}};
  EXPECT_THAT(message_of<ConfigError>([&] {
                labels_from_cache(exams_with({"1.5", "2.25", "3", "4"}), options);
              }),
              HasSubstr("are for classes, and 'label' is learnt as regression"));
}

TEST(LabelsFile, ReplacesTheColumnAndReportsConflicts) {
  const auto exams = exams_with({"a", "b", "a", "b", ""});
  const Labels labels = labels_from_csv(exams, csv("exam,label\ne0,a\ne1,a\ne2,\ne4,b\nother,a\n"),
                                        {"label", "", {}});
  EXPECT_THAT(labels.value, ElementsAre(0, 0, kUnlabeled, kUnlabeled, 1));
  EXPECT_EQ(labels.unlabeled, 2u);
  EXPECT_THAT(
      labels.warnings,
      ElementsAre(AllOf(HasSubstr("2 exams whose 'label'"), HasSubstr("'e1', 'e2'")),
                  AllOf(HasSubstr("1 exam of labels.csv not in the cache"), HasSubstr("'other'")),
                  AllOf(HasSubstr("1 exam of the cache not in labels.csv"), HasSubstr("'e3'"))));
  for (const std::string& warning : labels.warnings) EXPECT_THAT(warning, Not(HasSubstr("/home")));
}

TEST(LabelsFile, SeesNoConflictInAnotherSpellingOfANumber) {
  const Labels labels = labels_from_csv(exams_with({"1", "0"}), csv("exam,label\ne0,1.0\ne1,0.0\n"),
                                        {"label", "", {}});
  EXPECT_TRUE(labels.warnings.empty());
  EXPECT_THAT(labels.value, ElementsAre(1, 0));
}

TEST(LabelsFile, SeesNoConflictWhereOnlyOneColumnHoldsWords) {
  const Labels labels = labels_from_csv(exams_with({"1.0", "2.0", "x"}),
                                        csv("exam,label\ne0,1.0\ne1,2.0\n"), {"label", "", {}});
  EXPECT_THAT(labels.warnings, ElementsAre(HasSubstr("not in labels.csv")));
}

TEST(LabelsFile, AcceptsAColumnThatTheCacheLacks) {
  const Labels labels = labels_from_csv(exams_with({"", ""}, "other"),
                                        csv("exam,label\ne0,a\ne1,b\ne1,b\n"), {"label", "", {}});
  EXPECT_THAT(labels.value, ElementsAre(0, 1));
  EXPECT_TRUE(labels.warnings.empty());
}

TEST(LabelsFile, RefusesContradictionsAndStrangers) {
  const std::pair<const char*, const char*> cases[] = {
      {"exam,label\ne0,a\ne0,b\n", "exam 'e0' has 'label' = 'b', but 'a' on line 2"},
      {"exam,label\n,b\n", "line 2: column 'exam' is empty"},
      {"exam,label\nx,a\ny,b\n", "lists no exam of the cache"},
      {"exam,label\n", "has a header and no rows"},
      {"exam,grade\ne0,a\n", "label"},
      {"id,label\ne0,a\n", "exam"},
      {"exam,label\ne0,a\ne1,a\n", "one class only"},
  };
  for (const auto& [text, message] : cases) {
    try {
      labels_from_csv(exams_with({"a", "b"}), csv(text), {"label", "", {}});
      ADD_FAILURE() << text;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

}  // namespace
}  // namespace coldframe::temporal
