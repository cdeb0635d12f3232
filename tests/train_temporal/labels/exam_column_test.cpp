#include "train_temporal/labels/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::temporal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

std::vector<cache::ExamInfo> exams_at(const std::vector<std::string>& sites) {
  std::vector<cache::ExamInfo> exams;
  for (const std::string& site : sites) {
    exams.emplace_back().id = "e" + std::to_string(exams.size());
    exams.back().columns = {{"site", site}};
  }
  return exams;
}

std::vector<std::string> sites(const std::vector<cache::ExamInfo>& exams, const char* file,
                               std::vector<std::string>& said) {
  std::optional<CsvTable> labels;
  if (file != nullptr) labels = parse_csv(file, "labels.csv");
  return exam_column(exams, labels ? &*labels : nullptr, "site", "group", said);
}

TEST(ExamColumn, TakesWordsInOneSpellingAndCodesApart) {
  std::vector<std::string> said;
  EXPECT_THAT(sites(exams_at({"Bern", "bern ", "BERN", "Bern", "", "nan", "007", "7", "7.0"}),
                    nullptr, said),
              ElementsAre("Bern", "Bern", "Bern", "Bern", "", "", "007", "7", "7"));
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("column 'site'"),
                                      HasSubstr("'BERN' and 'bern' as 'Bern'"))));
  said.clear();
  sites(exams_at({"Bern", "Basel"}), nullptr, said);
  EXPECT_THAT(said, IsEmpty());
}

TEST(ExamColumn, RefusesTwoValuesOfOneExamWithBothLines) {
  std::vector<std::string> said;
  const auto exams = exams_at({"", ""});
  EXPECT_THAT(sites(exams, "exam,site\ne0,Bern\ne1,Basel\ne0,BERN\n", said),
              ElementsAre("Bern", "Basel"));
  EXPECT_THAT(message_of<DataError>(
                  [&] { sites(exams, "exam,site\ne0,Bern\ne1,Basel\ne0,Basel\n", said); }),
              HasSubstr("labels.csv line 4: exam 'e0' has 'site' = 'Basel', but 'Bern' on line 2"));
}

}  // namespace
}  // namespace coldframe::temporal
