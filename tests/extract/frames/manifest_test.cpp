// Manifests as people have them: columns in other case, paths of Windows, patterns of no file.
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "extract/frames/source.h"
#include "tests/extract/frames/listed.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;
using coldframe::testing::TemporaryFolder;

TEST(Manifest, TakesItsColumnsInOtherCaseAndSaysSo) {
  const TemporaryFolder folder;
  const auto result = list(folder, "Exam, PATH ,Patient,Time\na,b,P1,x\n", as_named());
  EXPECT_EQ(result.exams.at(0).id, "a");
  EXPECT_EQ(result.exams[0].items[0].name, "b");
  EXPECT_EQ(result.exams[0].patient, "P1");
  using Columns = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(result.exams[0].columns,
            (Columns{{"Time", "x"}}));  // of the exam, for all that is known
  ASSERT_EQ(result.warnings.size(), 3u);
  EXPECT_NE(result.warnings[0].find("the column 'Exam' is read as 'exam'"), std::string::npos);
}

TEST(Manifest, TakesPathsOfWindowsWhereTheyNameFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"p1", "p2"}) std::filesystem::create_directory(folder / name);
  for (const char* name : {"p1/1.png", "p1/2.png", "p2/1.png", "p2/a\\b.png"})
    folder.write(name, kPngSignature);
  const auto result = list(folder,
                           "exam,path\na,p1\\1.png\nb,p1\\*.png\nc,p2\\\nd,p2/a\\b.png\n"
                           "e,D:\\data\\1.png\n");
  std::vector<std::string> names;
  for (const ExamSpec& exam : result.exams)
    for (const ExamItem& item : exam.items) names.push_back(item.name);
  EXPECT_EQ(names, (std::vector<std::string>{"p1/1.png", "p1/1.png", "p1/2.png", "p2/1.png",
                                             "p2/a\\b.png", "p2/a\\b.png", "D:\\data\\1.png"}));
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("the paths of 3 rows are Windows' and are read with /, "
                                    "'p1\\1.png' as 'p1/1.png'"),
            std::string::npos)
      << result.warnings[0];
  const auto opened = [&](std::size_t exam) {
    return message_of<DataError>([&] { read_exam(result.exams[exam], {}, {}, {}); });
  };
  EXPECT_NE(opened(4).find("it is a path of Windows: write one of this machine"), std::string::npos)
      << opened(4);
}

TEST(Manifest, APatternOfNoFileIsAMissingOne) {
  const TemporaryFolder folder;
  folder.write("1.png", kPngSignature);
  const auto exams = list(folder, "exam,path\na,1.png\na,x*.png\n").exams;
  ASSERT_EQ(exams.at(0).items.size(), 2u);
  EXPECT_EQ(exams[0].items[1].name, "x*.png");
  ExamSpec missing = exams[0];
  missing.items.erase(missing.items.begin());
  const std::string message = message_of<DataError>([&] { read_exam(missing, {}, {}, {}); });
  EXPECT_NE(message.find("x*.png"), std::string::npos) << message;
  EXPECT_NE(message.find("as a pattern it matches no file"), std::string::npos) << message;
}

}  // namespace
}  // namespace coldframe::frames
