// Manifests and folders become exams, or one clear error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "tests/extract/input/listed.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;
using coldframe::testing::TemporaryFolder;

constexpr std::string_view kGif = "GIF89a";

TEST(Manifest, GroupsRowsIntoExamsInOrderOfAppearance) {
  const TemporaryFolder folder;
  const auto exams = list(folder,
                          "exam,path,patient,label,split\n"
                          "b,b/1.png,P2,1,train\n"
                          "a,a/1.png,P1,0,test\n"
                          "b,b/2.png,P2,1,train\n",
                          as_named())
                         .exams;
  ASSERT_EQ(exams.size(), 2u);
  EXPECT_EQ(exams[0].id, "b");
  EXPECT_EQ(exams[0].patient, "P2");
  ASSERT_EQ(exams[0].items.size(), 2u);
  EXPECT_EQ(exams[0].items[1].path, folder / "b/2.png");
  EXPECT_EQ(exams[0].items[1].name, "b/2.png");
  using Columns = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(exams[0].columns, (Columns{{"label", "1"}, {"split", "train"}}));
  EXPECT_TRUE(std::isnan(exams[0].start_time));
}

TEST(Manifest, ReadsFramesTimesAndFrameColumns) {
  const TemporaryFolder folder;
  const auto result = list(folder,
                           "exam,path,frame,time,phase\n"
                           "a,clip.avi,7,2024-03-01T12:00:00Z,early\n"
                           "a,clip.avi,10-20,2024-03-01T12:00:02.5Z,late\n"
                           "a,,,,\n",
                           {.frame_columns = {"phase"}});
  const auto& exam = result.exams.at(0);
  EXPECT_EQ(result.frame_columns, std::vector<std::string>{"phase"});
  EXPECT_TRUE(exam.columns.empty());
  EXPECT_DOUBLE_EQ(exam.start_time, 1709294400);
  EXPECT_EQ(exam.items[0].first, 7);
  EXPECT_EQ(exam.items[0].last, 7);
  EXPECT_EQ(exam.items[1].last, 20);
  EXPECT_DOUBLE_EQ(exam.items[1].time_s, 2.5);
  EXPECT_EQ(exam.items[1].frame_columns, std::vector<std::string>{"late"});
  EXPECT_TRUE(exam.items[2].path.empty());
}

TEST(Manifest, TakesDatesAsDicomWritesThem) {
  const TemporaryFolder folder;
  const auto exam = list(folder, "exam,path,time\na,b,20230101\na,c,20230701\n").exams.at(0);
  EXPECT_DOUBLE_EQ(exam.start_time, 1672531200);
  EXPECT_DOUBLE_EQ(exam.items[1].time_s, 181 * 86400.0);
}

TEST(Manifest, TakesDecreasingTimesOnlyWhenTold) {
  const TemporaryFolder folder;
  constexpr std::string_view csv = "exam,path,time\nP12-3,a,0\nP12-3,b,-4\n";
  EXPECT_NE(message_of<DataError>([&] { list(folder, csv); })
                .find("line 3: exam 'P12-3': frame 1 has time -4.0 s before frame 0 at 0.0 s; "
                      "sort the manifest, give --sort time or pass --allow-unordered"),
            std::string::npos);
  EXPECT_EQ(
      list(folder, csv, {.frame_columns = {}, .allow_unordered = true}).exams[0].items[1].time_s,
      -4.0);
}

TEST(Manifest, TakesMissingValuesHoweverSpelt) {
  const TemporaryFolder folder;
  const auto exam = list(folder,
                         "exam,path,time,patient,frame,label\na,b,0,NaN,,\n"
                         "a,c,NA,n/a,nan,NaN\na,NaN,,,,na\n")
                        .exams.at(0);
  EXPECT_EQ(exam.patient, "");
  EXPECT_TRUE(std::isnan(exam.items[1].time_s));
  EXPECT_EQ(exam.items[1].last, -1);
  EXPECT_TRUE(exam.items[2].path.empty());
}

TEST(Manifest, TakesSemicolonsDecimalCommasAndNamesOfOnesOwn) {
  const TemporaryFolder folder;
  ExamListOptions options;
  options.columns = {{"exam", "Study ID"}, {"path", "File"}, {"time", "t"}};
  const auto exam =
      list(folder, "Study ID;File;t;weight\n7;b;0;70,5\n7;c;1,25;70,5\n", options).exams.at(0);
  EXPECT_EQ(exam.id, "7");
  EXPECT_DOUBLE_EQ(exam.items[1].time_s, 1.25);
  EXPECT_EQ(exam.columns.at(0).second, "70.5");
  options.columns = {{"path", "f"}};
  EXPECT_NE(message_of<ConfigError>([&] {
              list(folder, "exam,path,f\na,b,c\n", options);
            }).find("has a column 'path' as well"),
            std::string::npos);
  options.columns = {{"pathology", "f"}};
  EXPECT_NE(message_of<ConfigError>([&] {
              list(folder, "exam,path,f\na,b,c\n", options);
            }).find("there is no column 'pathology' to fill"),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] {
              list_exams(folder.write("exams.xlsx", "PK\x03\x04..."), {});
            }).find("is an Excel file or an archive; open it and save it as CSV"),
            std::string::npos);
}

TEST(Manifest, SortsFramesByTime) {
  const TemporaryFolder folder;
  ExamListOptions sorted;
  sorted.sort_by_time = true;
  sorted.frame_columns = {"phase"};
  const auto exam = list(folder,
                         "exam,path,time,phase\na,c,2024-03-02,3\na,b,2024-03-01,2\n"
                         "a,b2,2024-03-01,2b\na,a,2024-02-01,1\n",
                         sorted)
                        .exams.at(0);
  std::string names, phases;
  for (const ExamItem& item : exam.items) {
    names += item.name;
    phases += item.frame_columns.at(0);
  }
  EXPECT_EQ(names, "abb2c");
  EXPECT_EQ(phases, "122b3");
  EXPECT_DOUBLE_EQ(exam.start_time, 1706745600);
  EXPECT_DOUBLE_EQ(exam.items[3].time_s, 30 * 86400.0);
  EXPECT_NE(message_of<DataError>([&] {
              list(folder, "exam,path,time,phase\na,b,3,\na,c,,\n", sorted);
            }).find("line 3: exam 'a': frame 1 has no time, which --sort time needs"),
            std::string::npos);
}

TEST(Manifest, RefusesWhatIsMalformedAndSaysWhere) {
  struct Case {
    const char *csv, *reason;
  };
  const Case cases[] = {
      {"", "exams.csv"},
      {"exam,path\n", "has no rows"},
      {"exam,file\na,b\n", "no column 'path'; the columns are: exam, file; --columns path=NAME"},
      {"id,path\na,b\n", "no column 'exam'; the columns are: id, path; --columns exam=NAME"},
      {"Path,PATH,exam\na,b,c\n", "no column 'path'"},
      {"exam,path,exam\na,b,c\n", "exam"},
      {"exam,path,\na,b,c\n", "column"},
      {"exam,path\na,b,c\n", "line 2"},
      {"exam,path\na,b\n ,c\n", "line 3: column 'exam' is empty"},
      {"exam,path\na,b\na,b\n", "line 3: exam 'a' names 'b' again, as line 2 did"},
      {"exam,path,label\na,b,0\nx,y,0\na,c,1\n",
       "line 4: exam 'a' has label '1' here and '0' on line 2"},
      {"exam,path,patient\na,b,P\na,c,\n", "exam 'a' has patient '' here and 'P' on line 2"},
      {"exam,path,frame\na,b,x\n", "line 2: column 'frame' holds 'x'"},
      {"exam,path,frame\na,b,-3\n", "column 'frame' holds '-3'"},
      {"exam,path,frame\na,b,5-3\n", "column 'frame' holds '5-3'"},
      {"exam,path,frame\na,b,1-2-3\n", "column 'frame' holds '1-2-3'"},
      {"exam,path,frame\na,b,99999999999999999999\n", "column 'frame' holds"},
      {"exam,path,frame\na,,0-99999999999\n", "one missing frame"},
      {"exam,path,time\na,b,soon\n", "line 2: column 'time' holds 'soon'"},
      {"exam,path,time\na,b,00:58\n",
       "holds '00:58'; expected seconds such as 12.5 or a date and time such as "
       "2024-03-01T12:30:05 (without a date nothing tells minutes:seconds from hours:minutes)"},
      {"exam,path,time\na,b,inf\n", "column 'time' holds 'inf'"},
      {"exam,path,time\na,b,\na,c,1\n", "none for its first frame"},
      {"exam,path,time\na,b,0\na,c,2024-01-01\n", "mixes seconds with dates"},
      {"exam,path,time\na,b,20230101\na,c,20230231\n", "write dates as YYYY-MM-DD"},
      {"exam,path\n\"a\nb\",c\n", "control character"},
  };
  const TemporaryFolder folder;
  for (const auto& [csv, reason] : cases) {
    const auto message = message_of<DataError>([&] { list(folder, csv); });
    EXPECT_NE(message.find(reason), std::string::npos) << csv << " -> " << message;
  }
}

TEST(Manifest, RefusesFrameColumnsThatCannotBe) {
  const TemporaryFolder folder;
  constexpr std::string_view csv = "exam,path\na,b\n";
  EXPECT_THROW(list(folder, csv, {.frame_columns = {"phase"}}), DataError);
  EXPECT_THROW(list(folder, csv, {.frame_columns = {"path"}}), ConfigError);
}

TEST(Folder, TakesSubFoldersOfImagesAndClips) {
  const TemporaryFolder folder;
  for (const char* name : {"e10", "e2", "e2/inner"})
    std::filesystem::create_directory(folder / name);
  for (const char* name : {"e10/f10.png", "e10/f9.png", "e2/x", "e2/inner/y.jpg"}) {
    folder.write(name, kPngSignature);
  }
  folder.write("clip.gif", kGif);
  folder.write("e2.gif", kGif);  // would be called as the folder is
  folder.write(".hidden.png", kPngSignature);
  folder.write("labels.csv", "exam,label\n");
  const auto result = list_exams(folder / "", {});
  std::vector<std::string> ids;
  for (const auto& exam : result.exams) ids.push_back(exam.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"clip", "e2", "e2.gif", "e2/inner", "e10"}));
  EXPECT_EQ(result.exams.back().items.front().name, "e10/f9.png");
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_NE(result.warnings[0].find("pass it as --input"), std::string::npos);
  EXPECT_NE(result.warnings[1].find("1 hidden"), std::string::npos);
}

TEST(Folder, KeepsAllWarningsAndShowsTwenty) {
  const TemporaryFolder folder;
  folder.write("x.png", kPngSignature);
  for (int i = 0; i < 25; ++i) folder.write("notes-" + std::to_string(i) + ".txt", "hello");
  const ExamList list = list_exams(folder / "", {});
  EXPECT_EQ(list.warnings.size(), 25u);
  const auto shown = shown_warnings(list);
  ASSERT_EQ(shown.size(), 21u);
  EXPECT_EQ(shown[19], list.warnings[19]);
  EXPECT_NE(shown[20].find("5 more"), std::string::npos);
}

TEST(Folder, FollowsSymbolicLinksButNotInACircle) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "real/deep");
  folder.write("real/deep/a.png", kPngSignature);
  std::filesystem::create_directory_symlink(folder / "real", folder / "linked");
  EXPECT_EQ(list_exams(folder / "", {}).exams.size(), 2u);
  std::filesystem::create_directory_symlink(folder / "real", folder / "real/deep/up");
  const ExamList list = list_exams(folder / "", {});
  EXPECT_EQ(list.exams.size(), 2u);
  ASSERT_EQ(list.warnings.size(), 2u);
  EXPECT_NE(list.warnings[1].find("passed over 'real/deep/up': this symbolic link leads back to"),
            std::string::npos)
      << list.warnings[1];
}

TEST(Folder, PassesOverWhatLiesTooDeep) {
  const TemporaryFolder folder;
  std::filesystem::path deep = folder / "a";
  for (int i = 0; i < 70; ++i) deep /= "d";
  std::filesystem::create_directories(deep);
  folder.write("a/x.png", kPngSignature);
  const ExamList list = list_exams(folder / "", {});
  EXPECT_EQ(list.exams.size(), 1u);
  ASSERT_EQ(list.warnings.size(), 1u);
  EXPECT_NE(list.warnings[0].find("more than 64 folders deep"), std::string::npos);
}

TEST(Folder, PassesOverSubFoldersThatCannotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "lost+found");
  std::filesystem::permissions(folder / "lost+found", std::filesystem::perms::none);
  folder.write("x.png", kPngSignature);
  const ExamList list = list_exams(folder / "", {});
  EXPECT_EQ(list.exams.size(), 1u);
  ASSERT_EQ(list.warnings.size(), 1u);
  EXPECT_NE(list.warnings[0].find("passed over 'lost+found'"), std::string::npos);
  EXPECT_NE(message_of<DataError>([&] {
              list_exams(folder / "lost+found", {});
            }).find("cannot read folder"),
            std::string::npos);
  std::filesystem::permissions(folder / "lost+found", std::filesystem::perms::owner_all);
}

TEST(Input, RefusesWhatHoldsNoExams) {
  const TemporaryFolder folder;
  EXPECT_NE(message_of<DataError>([&] { list_exams(folder / "absent", {}); }).find("absent"),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] { list_exams(folder / "", {}); }).find("holds no image"),
            std::string::npos);
  const auto text = folder.write("notes.txt", "hello");
  EXPECT_NE(message_of<DataError>([&] { list_exams(text, {}); }).find("neither a folder"),
            std::string::npos);
  EXPECT_THROW(list_exams(folder.write("a.gif", kGif), {.frame_columns = {"x"}}), ConfigError);
}

TEST(Input, NamesAFileTheSameAloneAndInAFolder) {
  struct Case {
    const char *file, *id;
  };
  const Case cases[] = {
      {"clip.gif", "clip"},
      {"lung.2.GIF", "lung.2"},
      {"s.nii", "s"},
      {"s.nii.gz", "s"},
      {"1.2.840.113619.2.1", "1.2.840.113619.2.1"},
      {"1.2.840.113619.2.1.dcm", "1.2.840.113619.2.1"},
      {"patient.7", "patient.7"},
      {"notes.gz", "notes.gz"},
  };
  for (const auto& [file, id] : cases) {
    const TemporaryFolder folder;
    const auto path = folder.write(file, kGif);
    EXPECT_EQ(list_exams(path, {}).exams.at(0).id, id);
    EXPECT_EQ(list_exams(folder / "", {}).exams.at(0).id, id);
  }
}

TEST(Folder, NamesOfDifferentExamsDiffer) {
  const TemporaryFolder folder;
  const auto root = folder / "x";
  std::filesystem::create_directories(root / "x");
  folder.write("x/a.png", kPngSignature);
  folder.write("x/x/a.png", kPngSignature);
  const auto exams = list_exams(root, {}).exams;
  ASSERT_EQ(exams.size(), 2u);
  EXPECT_EQ(exams[0].id, "x");
  EXPECT_EQ(exams[0].items[0].name, "x/a.png");
  EXPECT_EQ(exams[1].id, "x-2");
}

TEST(Input, TakesASingleFileAsAnExam) {
  const TemporaryFolder folder;
  const auto exams = list_exams(folder.write("lung.2.gif", kGif), {}).exams;
  ASSERT_EQ(exams.size(), 1u);
  EXPECT_EQ(exams[0].id, "lung.2");
  EXPECT_EQ(exams[0].items[0].last, -1);
}

}  // namespace
}  // namespace coldframe::frames
