// What a dry run tells of files by their names.
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "extract/inspect/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coldframe::extract::dry_run {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "kind exam: detail" of an input whose exams hold these files.
std::vector<std::string> look(const std::vector<std::vector<std::string>>& exams) {
  frames::ExamList input;
  for (const auto& files : exams) {
    frames::ExamSpec exam;
    exam.id = std::string(1, static_cast<char>('A' + input.exams.size()));
    for (const auto& name : files) {
      frames::ExamItem item;
      item.path = item.name = name;
      exam.items.push_back(item);
    }
    input.exams.push_back(exam);
  }
  std::vector<std::string> lines;
  for (const Finding& finding : look_at_file_names(input))
    for (const FindingCase& one : finding.cases)
      lines.push_back(finding.kind + " " + one.exams.at(0) + ": " + one.detail);
  return lines;
}

TEST(FileNames, FramesOfSeveralPatientsInOneExamAreTold) {
  EXPECT_THAT(look({{"d/pat1_1.png", "d/pat1_2.png", "d/pat2_1.png"}}),
              ElementsAre("several_series A: frame 1 of 'pat1' and of 'pat2'"));
  EXPECT_THAT(look({{"1-07.png", "2-07.png", "3-07.png", "3-08.png"}}),
              ElementsAre("several_series A: frame 07 of '1' and of '2' and 1 more"));
}

TEST(FileNames, OneSeriesIsInOrder) {
  EXPECT_THAT(look({{"pat1_1.png", "pat1_2.png"}, {"pat2_1.png", "pat2_2.png"}}), IsEmpty());
  EXPECT_THAT(look({{"frame1.png", "frame2.png"}, {"1.png", "10.png"}, {"a.png", "b.png"}}),
              IsEmpty());
  EXPECT_THAT(look({{"img_1_of_2.png", "img_2_of_2.png"}}), IsEmpty());
}

TEST(FileNames, MasksBesideImagesAreTold) {
  EXPECT_THAT(look({{"a/x.png", "a/x_mask.png", "a/y.png"}, {"b/mask.png", "b/x_mask.png"}}),
              ElementsAre("masks A: 'a/x_mask.png'"));
  EXPECT_THAT(look({{"v.nii.gz"}, {"v_seg.nii.gz"}}), ElementsAre("masks B: 'v_seg.nii.gz'"));
}

}  // namespace
}  // namespace coldframe::extract::dry_run
