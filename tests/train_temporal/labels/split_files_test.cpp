#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/labels/split.h"

namespace coldframe::temporal {
namespace {

using ::testing::HasSubstr;

// 24 exams of 12 patients, classes in turn by patient.
class SplitFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 24; ++i) {
      cache::ExamInfo exam;
      exam.id = concat("exam,", i);  // needs quoting in a CSV
      exam.patient = concat("P", i / 2);
      exam.columns = {{"split", i < 16 ? "train" : i < 20 ? "val" : "test"}};
      exams_.push_back(exam);
      labels_.value.push_back(static_cast<int>(i / 2 % 2));
    }
    labels_.classes = {"0", "1"};
    labels_.name = "label";
    std::vector<std::string> said;
    patients_ = patients_of(exams_, labels_, false, said);
  }

  SplitSet read(const std::string& text) const {
    return splits_from_csv(parse_csv(text, "splits.csv"), exams_, labels_, patients_, 1);
  }

  std::string read_message(const std::string& text) const {
    try {
      read(text);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no DataError";
  }

  void set_column(const std::string& value) {
    for (auto& exam : exams_) exam.columns[0].value = value;
  }

  std::string column_message() const {
    try {
      split_from_column(exams_, labels_, patients_, 1);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no DataError";
  }

  std::vector<cache::ExamInfo> exams_;
  Labels labels_;
  std::vector<std::string> patients_;
};

TEST_F(SplitFiles, ComeBackAsTheyWereWritten) {
  const auto splits = make_folds(labels_, patients_, 3, 5, 2).splits;
  const SplitSet back = read(splits_to_csv(splits, exams_, patients_));
  ASSERT_EQ(back.splits.size(), splits.size());
  for (std::size_t i = 0; i < splits.size(); ++i) {
    EXPECT_EQ(back.splits[i].repeat, splits[i].repeat);
    EXPECT_EQ(back.splits[i].fold, splits[i].fold);
    EXPECT_EQ(back.splits[i].train, splits[i].train);
    EXPECT_EQ(back.splits[i].validation, splits[i].validation);
    EXPECT_EQ(back.splits[i].test, splits[i].test);
  }
  EXPECT_TRUE(back.warnings.empty());
}

TEST_F(SplitFiles, MakeAValidationPartWhereTheFileHasNone) {
  std::string text = "exam,part\n";
  for (std::size_t i = 0; i < 24; ++i) {
    text += concat("\"exam,", i, "\",", i < 20 ? "train" : "test", "\n");
  }
  const SplitSet set = read(text);
  ASSERT_EQ(set.splits.size(), 1u);
  EXPECT_EQ(set.splits[0].test, (std::vector<std::size_t>{20, 21, 22, 23}));
  EXPECT_FALSE(set.splits[0].validation.empty());
  EXPECT_NO_THROW(check_patients_apart(set.splits[0], patients_));
}

TEST_F(SplitFiles, WarnOfWhatIsLeftOut) {
  std::string text = splits_to_csv(make_folds(labels_, patients_, 3, 5).splits, exams_, patients_);
  labels_.value[3] = kUnlabeled;
  labels_.unlabeled = 1;
  EXPECT_THAT(read(text).warnings,
              ::testing::ElementsAre(HasSubstr("3 rows of splits.csv for exams "
                                               "without a label")));
  text = "exam,part\n";
  for (std::size_t i = 4; i < 24; ++i) {
    text += concat("\"exam,", i, "\",", i < 12 ? "train" : i < 20 ? "val" : "test", "\n");
  }
  EXPECT_THAT(read(text).warnings,
              ::testing::ElementsAre(HasSubstr("3 exams with a label, but in no "
                                               "part")));
}

TEST_F(SplitFiles, RefuseAnExamInTwoTestPartsOfARepeat) {
  auto splits = make_folds(labels_, patients_, 3, 5, 2).splits;
  splits[1].validation.clear();
  splits[1].train.clear();
  splits[1].test = splits[0].test;
  for (std::size_t i = 0; i < exams_.size(); ++i) {
    if (!std::ranges::count(splits[1].test, i)) splits[1].train.push_back(i);
  }
  EXPECT_THAT(read_message(splits_to_csv(splits, exams_, patients_)),
              HasSubstr("is in two test parts of repeat 0"));
}

TEST_F(SplitFiles, WarnWithoutThePathOfTheFile) {
  const std::string text =
      splits_to_csv(make_folds(labels_, patients_, 3, 5).splits, exams_, patients_);
  labels_.value[3] = kUnlabeled;
  labels_.unlabeled = 1;
  const auto table = parse_csv(text, "/home/somebody/splits.csv");
  const auto warnings = splits_from_csv(table, exams_, labels_, patients_, 1).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find('/'), std::string::npos);
}

TEST_F(SplitFiles, RefuseWhatCannotBeASplit) {
  const std::string head = "repeat,fold,exam,patient,part\n";
  const std::pair<std::string, const char*> cases[] = {
      {head + "0,0,nobody,P0,train\n", "line 2: exam 'nobody' is not in the cache"},
      {head + "0,0,\"exam,0\",P0,training set\n", "part 'training set' is none of train"},
      {head + "0,x,\"exam,0\",P0,train\n", "fold 'x' is not a number"},
      {head + "-1,0,\"exam,0\",P0,train\n", "repeat '-1' is not a number"},
      {head + "0,0,\"exam,0\",P0,train\n0,0,\"exam,0\",P0,train\n", "listed twice in fold 0"},
      {head + "0,0,\"exam,0\",P0,train\n0,0,\"exam,1\",P0,test\n", "patient 'P0' is in part test"},
      // The file gives them two patients, the cache one.
      {head + "0,0,\"exam,0\",A,train\n0,0,\"exam,1\",B,test\n", "patient 'P0' is in the train"},
      {head + "0,0,\"exam,0\",P0,train\n0,0,\"exam,2\",P1,train\n", "test part of repeat 0"},
      {head + "0,0,\"exam,0\",P0,test\n", "train part of repeat 0, fold 0 is empty"},
      {head + "0,0,\"exam,0\",P0,train\n0,0,\"exam,4\",P2,val\n0,0,\"exam,2\",P1,test\n",
       "train part of repeat 0, fold 0 has no exam of class '1'"},
      {head, "no row for a labelled exam"},
      {"fold,exam\n0,e\n", "part"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(read_message(text), HasSubstr(message)) << text;
  }
}

TEST_F(SplitFiles, HonourTheColumnOfTheManifest) {
  ASSERT_TRUE(has_split_column(exams_));
  const SplitSet set = split_from_column(exams_, labels_, patients_, 1);
  EXPECT_EQ(set.splits.at(0).train.size(), 16u);
  EXPECT_EQ(set.splits[0].validation, (std::vector<std::size_t>{16, 17, 18, 19}));
  EXPECT_EQ(set.splits[0].test, (std::vector<std::size_t>{20, 21, 22, 23}));
}

TEST_F(SplitFiles, TakeAMissingValidationPartFromTheColumnsTrain) {
  for (auto& exam : exams_) {
    if (exam.columns[0].value == "val") exam.columns[0].value = " Train";
  }
  const Split split = split_from_column(exams_, labels_, patients_, 1).splits.at(0);
  EXPECT_EQ(split.test.size(), 4u);
  EXPECT_EQ(split.train.size() + split.validation.size(), 20u);
  EXPECT_GE(split.validation.size(), 2u);
}

TEST_F(SplitFiles, RefuseAColumnThatIsIncompleteOrSplitsAPatient) {
  exams_[3].columns[0].value.clear();
  EXPECT_THAT(column_message(), HasSubstr("exam 'exam,3' has no split; expected"));
  labels_.value[3] = kUnlabeled;  // without a label it does not matter
  EXPECT_EQ(column_message(), "no DataError");
  exams_[5].columns[0].value = "test";
  EXPECT_THAT(column_message(), HasSubstr("patient 'P2' is in the train part and in the test"));
  set_column("train");
  EXPECT_THAT(column_message(), HasSubstr("puts no labelled exam into test"));
}

TEST_F(SplitFiles, KnowWhenThereIsNoColumn) {
  set_column(" ");
  EXPECT_FALSE(has_split_column(exams_));
  for (auto& exam : exams_) exam.columns.clear();
  EXPECT_FALSE(has_split_column(exams_));
  EXPECT_THAT(column_message(), HasSubstr("the cache has no column 'split'"));
}

}  // namespace
}  // namespace coldframe::temporal
