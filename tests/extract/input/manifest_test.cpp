// Manifests as people have them: columns in other case, paths of Windows, patterns of no file.
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/preprocess/preprocessing.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/extract/input/listed.h"

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

TEST(Manifest, KeepsElapsedTimes) {
  const TemporaryFolder folder;
  const auto exams =
      list(folder, "exam,path,time\na,1.png,8\na,2.png,10\nb,3.png,2024-03-01\nc,4.png,\n").exams;
  EXPECT_EQ(exams.at(0).elapsed_start, 8);
  EXPECT_EQ(exams[0].items[1].time_s, 2);
  EXPECT_TRUE(std::isnan(exams.at(1).elapsed_start) && std::isnan(exams.at(2).elapsed_start));
}

TEST(Manifest, TakesSeveralFramesFromOneImage) {
  const TemporaryFolder folder;
  const std::string two = "exam,path,crop,eye\na,1.png,\"0,0,50%,100%-50\",FA\na,1.png,";
  ExamListOptions options = as_named();
  options.frame_columns = {"eye"};
  options.streams = "eye";
  const auto items = list(folder, two + "\"50%,0,50%,100%-50\",ICGA\n", options).exams.at(0).items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].stream, "ICGA");
  EXPECT_EQ(items[0].crop->rect_in(641, 500), (Rect{0, 0, 320, 450}));
  EXPECT_EQ(items[1].crop->rect_in(641, 500), (Rect{320, 0, 320, 450}));
  EXPECT_NE(message_of<DataError>([&] {
              list(folder, two + "\"0,0,50%,100%-50\",ICGA\n", options);
            }).find("give each a 'crop' of its own"),
            std::string::npos);
}

TEST(Manifest, ReadsCropsAsTheyAreWritten) {
  for (const char* text : {"1,2,30,40", "0,0,50%,100%-50", "33.5%,5,10%+3,7", "auto", "none"}) {
    const auto rule = parse_crop(text);
    ASSERT_TRUE(rule) << text;
    EXPECT_EQ(preprocess::to_text(*rule), text);
  }
  for (const char* text :
       {"1,2,3", "-1,0,1,1", "0,0,0,1", "0,0,101%,1", "0,0,50%50,1", "0,0,%,1", "0,0,50%-,1",
        "0,0,nan%,1", "0,0,50%+-3,1", "0,0,0%,1", "0%-5,0,1,1", "a,0,1,1"})
    EXPECT_FALSE(parse_crop(text)) << text;
}

TEST(Manifest, PathsMayBeginElsewhere) {
  const TemporaryFolder folder;
  ExamListOptions options;
  options.root = folder / "frames";
  EXPECT_EQ(list(folder, "exam,path\na,1.png\n", options).exams.at(0).items.at(0).path,
            folder / "frames/1.png");
}

TEST(Split, GivesExamsWithTheirTimes) {
  const TemporaryFolder folder;
  const auto path = folder.write("split.json",
                                 R"({"train": [{"exam": "a/1_L", "label": 2, "frames": [
            {"file": "0.jpg", "elapsed_seconds": 58.5, "elapsed_display": "0:58.50"},
            {"file": "1.jpg", "elapsed_seconds": 60}]}],
          "validation": [{"exam": "a/2_R", "label": "x", "frames": ["10.jpg", "9.jpg"]}], "test": []})");
  ExamListOptions options = as_named();
  options.exam_from = R"((?<exam>(?<patient>\d+)_[LR])$)";
  options.root = "/frames";
  const auto exams = list_exams(path, options).exams;
  ASSERT_EQ(exams.size(), 2u);
  EXPECT_EQ(exams[0].id, "1_L");
  EXPECT_EQ(exams[0].patient, "1");
  EXPECT_EQ(exams[0].elapsed_start, 58.5);
  EXPECT_EQ(exams[0].items.at(1).time_s, 1.5);
  EXPECT_EQ(exams[0].items[1].path, "/frames/a/1_L/1.jpg");
  using Columns = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(exams[0].columns, (Columns{{"split", "train"}, {"label", "2"}}));
  EXPECT_EQ(exams[1].columns, (Columns{{"split", "validation"}, {"label", "x"}}));
  EXPECT_EQ(exams[1].items.at(0).name, "a/2_R/10.jpg") << "in the order of the split";
}

TEST(Split, GroupsFramesByTheirFolder) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "split.json",
      R"({"train": [["e/10.jpg", 1], ["f/1.jpg", 0], ["e/2.jpg", 1]], "val": [["g/1.jpg", 0]]})");
  const auto exams = list_exams(path, {}).exams;
  ASSERT_EQ(exams.size(), 3u);
  EXPECT_EQ(exams[0].id, "e");
  ASSERT_EQ(exams[0].items.size(), 2u);
  EXPECT_EQ(exams[0].items[0].name, "e/2.jpg");
  EXPECT_EQ(exams[2].columns.at(0).second, "val");
}

TEST(Split, RefusesWhatIsNoSplit) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "it is no object of parts"},
      {"{}", "it is no object of parts"},
      {R"({"weights": []})", "'weights' is no part"},
      {R"({"train": {}})", "it is no list"},
      {R"({"train": []})", "its parts are empty"},
      {R"({"train": [["a/1.jpg"]]})", "at train 1: it is [\"a/1.jpg\"], no [path, label]"},
      {R"({"train": [["1.jpg", 0]]})", "lies in no folder"},
      {R"({"train": [["a/1.jpg", [1]]]})", "neither a number nor a text"},
      {R"({"train": [["a/1.jpg", 1], ["a/2.jpg", 0]]})", "exam 'a' has label 0 in train here"},
      {R"({"train": [["a/1.jpg", 1]], "test": [["a/2.jpg", 1]]})", "one label and one part"},
      {R"({"train": [["a/1.jpg", 1], ["a/1.jpg", 1]]})", "'a/1.jpg' is there a second time"},
      {R"({"train": [7]})", "it is 7, without 'exam'"},
      {R"({"train": [{"exam": "a", "label": 1}]})", "without 'frames'"},
      {R"({"train": [{"exam": "a", "label": 1, "frames": []}]})", "has no list of frames"},
      {R"({"train": [{"exam": "a", "label": 1, "frames": [3]}]})", "a frame is 3, no text"},
      {R"({"train": [{"exam": "a", "label": 1, "frames": [{"file": "1", "elapsed_seconds": "x"}]}]})",
       "a time is \"x\", no number"},
      {R"({"train": [{"exam": "a", "label": 1, "frames": ["1"]}, {"exam": "a", "label": 1, "frames": ["2"]}]})",
       "exam 'a' is there a second time"},
  };
  for (const auto& [text, reason] : cases) {
    const auto path = folder.write("split.json", text);
    const std::string message = message_of<DataError>([&] { list_exams(path, {}); });
    EXPECT_NE(message.find(reason), std::string::npos) << text << "\n" << message;
  }
}

}  // namespace
}  // namespace coldframe::frames
