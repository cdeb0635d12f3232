// What is extracted again, and what is not.
#include "extract/pipeline/resume.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cache/store/pack.h"
#include "cache/tool/prune.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Begins with a cache of two exams.
class Resume : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;
  MeanBackbone backbone;
  frames::ExamList input;

  void SetUp() override {
    set_quiet(true);
    for (int i = 0; i < 4; ++i) write_grey_image(scratch / concat(i, ".png"), 10 * i);
    manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
    extract();
  }

  void extract(const frames::FrameSelection& selection = {}) {
    auto options = small_options();
    options.selection = selection;
    std::optional<cache::CacheReader> cached;
    if (!location().files().empty()) cached.emplace(location().path);
    const Plan plan = plan_extraction(input, {selection}, cached ? &*cached : nullptr);
    cached.reset();
    cache::update_metadata(location(), plan.metadata);
    cache::ShardWriter writer(location(), make_recipe(options, backbone), 2, {});
    const ComputeDevice cpu{torch::kCPU, &backbone};
    run_pipeline(plan.extract, options, std::span(&cpu, 1), writer);
    writer.finish();
  }
  cache::Location location() { return cache::locate(scratch / "out.cache"); }
  void manifest(const std::string& rows) {
    write_text(scratch / "exams.csv", "exam,path,time,patient,label\n" + rows);
    frames::ExamListOptions options;
    options.reader.keep_patient_id = true;
    input = frames::list_exams(scratch / "exams.csv", options);
  }
  Plan plan(const PlanOptions& options = {}) {
    const cache::CacheReader cached(scratch / "out.cache");
    return plan_extraction(input, options, &cached);
  }
  // The exams of a cache: id, patient, and the grey level of its first frame.
  std::vector<std::string> cached_exams() {
    const cache::CacheReader cached(scratch / "out.cache");
    std::vector<std::string> exams;
    for (std::size_t i = 0; i < cached.exams().size(); ++i)
      exams.push_back(concat(cached.exams()[i].id, " ", cached.exams()[i].patient, " ",
                             std::lround(cached.features(i)[0] * 255)));
    return exams;
  }
};

TEST_F(Resume, NothingToDoWhenNothingChanged) {
  const Plan again = plan();
  EXPECT_TRUE(again.extract.exams.empty());
  EXPECT_TRUE(again.metadata.empty());
  EXPECT_EQ(again.unchanged, 2u);
}

TEST_F(Resume, LabelsPatientsAndTimesUpdateWithoutExtraction) {
  manifest("A,0.png,0,p9,x\nA,1.png,6,p9,x\nB,2.png,0,p2,z\nB,3.png,7,p2,z\n");
  const Plan changed = plan();
  EXPECT_TRUE(changed.extract.exams.empty());
  ASSERT_EQ(changed.metadata.size(), 2u);
  EXPECT_THAT(changed.changes, Contains("exam 'A': patient 'p1' -> 'p9'"));
  EXPECT_THAT(changed.changes, Contains("exam 'B': label 'y' -> 'z'"));
  EXPECT_THAT(changed.changes, Contains(HasSubstr("exam 'A': times")));

  const auto before = cache::CacheReader(scratch / "out.cache").features(0);
  cache::update_metadata(location(), changed.metadata);
  const cache::CacheReader cached(scratch / "out.cache");
  EXPECT_EQ(cached.exams()[0].patient, "p9");
  EXPECT_EQ(cached.exams()[0].time_s, (std::vector<double>{0, 6}));
  EXPECT_EQ(cache::column_value(cached.exams()[1], "label"), "z");
  EXPECT_EQ(cached.features(0), before);
  const Plan settled = plan();
  EXPECT_TRUE(settled.extract.exams.empty());
  EXPECT_TRUE(settled.metadata.empty());
}

TEST_F(Resume, AChangedFileIsExtractedAgainWithAHigherRevision) {
  write_grey_image(scratch / "3.png", 200);
  const Plan changed = plan();
  ASSERT_EQ(changed.extract.exams.size(), 1u);
  EXPECT_EQ(changed.extract.exams[0].id, "B");
  EXPECT_EQ(changed.extract.exams[0].revision, 1u);
}

TEST_F(Resume, ATouchedFileWithTheSameContentIsNot) {
  std::filesystem::last_write_time(
      scratch / "3.png", std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(plan().extract.exams.empty());
  EXPECT_TRUE(plan().changes.empty());
  extract();
  EXPECT_EQ(plan().unchanged, 2u);  // the new date is stored, so that nothing is read again
}

TEST_F(Resume, NewExamsAreExtractedAndMovedOnesOnlyRenumbered) {
  manifest("C,1.png,0,p3,x\nA,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  const Plan grown = plan();
  ASSERT_EQ(grown.extract.exams.size(), 1u);
  EXPECT_EQ(grown.extract.exams[0].id, "C");
  EXPECT_EQ(grown.metadata.size(), 2u);
  EXPECT_TRUE(grown.changes.empty());
}

TEST_F(Resume, AnAddedFrameMakesTheExamStale) {
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nA,2.png,9,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  const Plan changed = plan();
  ASSERT_EQ(changed.extract.exams.size(), 1u);
  EXPECT_EQ(changed.extract.exams[0].id, "A");
}

TEST_F(Resume, ExamsThatLeftTheInputStayAndAreCounted) {
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\n");
  const Plan shrunk = plan();
  EXPECT_EQ(shrunk.unchanged, 1u);
  EXPECT_EQ(shrunk.not_in_input, 1u);
}

TEST_F(Resume, MovedFilesAreKnownByTheirContent) {
  std::filesystem::create_directory(scratch / "sub");
  for (int i = 0; i < 4; ++i)
    std::filesystem::rename(scratch / concat(i, ".png"), scratch / concat("sub/", i, ".png"));
  manifest("A,sub/0.png,0,p1,x\nA,sub/1.png,9,p1,x\nB,sub/2.png,0,p2,y\nB,sub/3.png,7,p2,y\n");
  const Plan moved = plan();
  EXPECT_TRUE(moved.extract.exams.empty());
  EXPECT_THAT(moved.changes, ElementsAre("exam 'A': times changed"));
  extract();
  const cache::CacheReader cached(scratch / "out.cache");
  EXPECT_EQ(cached.exams()[0].time_s, (std::vector<double>{0, 9}));
  EXPECT_EQ(cached.exams()[1].frame_source, (std::vector<std::string>{"sub/2.png", "sub/3.png"}));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(Resume, AnotherFileOfTheSameSizeAndDateIsNotTheSame) {
  write_grey_image(scratch / "one.tif", 30);
  write_grey_image(scratch / "other.tif", 60);
  ASSERT_EQ(std::filesystem::file_size(scratch / "one.tif"),
            std::filesystem::file_size(scratch / "other.tif"));
  std::filesystem::last_write_time(scratch / "other.tif",
                                   std::filesystem::last_write_time(scratch / "one.tif"));
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,one.tif,7,p2,y\n");
  extract();
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,other.tif,7,p2,y\n");
  const Plan changed = plan();
  ASSERT_EQ(changed.extract.exams.size(), 1u);
  EXPECT_EQ(changed.extract.exams[0].id, "B");
}

TEST_F(Resume, MissingRowsKeepTheirColumnsUnderSelection) {
  std::filesystem::remove_all(scratch / "out.cache");
  write_text(
      scratch / "exams.csv",
      "exam,path,quality\nA,0.png,q0\nA,,q1\nA,1.png,q2\nA,,q3\nA,2.png,q4\nA,,q5\nA,3.png,q6\n");
  input = frames::list_exams(scratch / "exams.csv", {{"quality"}, false});
  const frames::FrameSelection three{3};
  extract(three);
  const cache::CacheReader cached(scratch / "out.cache");
  const std::vector<std::string> expected{"q0", "q3", "q6"};
  EXPECT_EQ(cached.exams()[0].frame_columns.at(0).values, expected);
  const Plan again = plan_extraction(input, {.selection = three}, &cached);
  EXPECT_EQ(again.unchanged, 1u);
}

TEST_F(Resume, OtherTimesMaySelectOtherFrames) {
  std::filesystem::remove_all(scratch / "out.cache");
  const frames::FrameSelection late{.start_s = 5};
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nA,2.png,6,p1,x\n");
  extract(late);
  const cache::CacheReader cached(scratch / "out.cache");
  ASSERT_THAT(cached.exams()[0].frame_source, ElementsAre("1.png", "2.png"));
  EXPECT_EQ(plan_extraction(input, {.selection = late}, &cached).unchanged, 1u);
  manifest("A,0.png,0,p1,x\nA,1.png,7,p1,x\nA,2.png,8,p1,x\n");
  EXPECT_EQ(plan_extraction(input, {.selection = late}, &cached).metadata.size(), 1u);
  manifest("A,0.png,0,p1,x\nA,1.png,1,p1,x\nA,2.png,2,p1,x\n");
  EXPECT_EQ(plan_extraction(input, {.selection = late}, &cached).extract.exams.size(), 1u);
  const frames::FrameSelection early{.end_s = 6};
  manifest("A,1.png,0,p1,x\nA,2.png,1,p1,x\nA,0.png,9,p1,x\n");
  EXPECT_EQ(plan_extraction(input, {.selection = early}, &cached).extract.exams.size(), 1u);
}

TEST_F(Resume, ARestoredSourceVoidsItsFailure) {
  const std::string whole = scratch.read("3.png");
  scratch.write("3.png", whole.substr(0, whole.size() / 2));
  extract();
  EXPECT_EQ(cache::CacheReader(scratch / "out.cache").failures().size(), 1u);
  scratch.write("3.png", whole);
  extract();
  EXPECT_TRUE(cache::CacheReader(scratch / "out.cache").failures().empty());
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(Resume, ALostFrameStaysKnownWhenLabelsChange) {
  std::filesystem::remove_all(scratch / "out.cache");
  std::filesystem::remove(scratch / "3.png");
  extract();
  manifest("A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,z\nB,3.png,7,p2,z\n");
  extract();
  const cache::CacheReader cached(scratch / "out.cache");
  EXPECT_EQ(cache::column_value(cached.exams()[1], "label"), "z");
  EXPECT_EQ(cached.exams()[1].present, (std::vector<std::uint8_t>{1, 0}));
  ASSERT_EQ(cached.failures().size(), 1u);
  EXPECT_THAT(cached.failures()[0].reason, HasSubstr("3.png"));
  const Plan again = plan();
  EXPECT_TRUE(again.metadata.empty());
  ASSERT_EQ(again.extract.exams.size(), 1u);
  EXPECT_EQ(again.extract.exams[0].present, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(again.unchanged, 1u);
}

TEST_F(Resume, ExamsThatLeftMoveBehindTheOthers) {
  manifest("B,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  extract();
  const cache::CacheReader cached(scratch / "out.cache");
  EXPECT_EQ(cached.exams()[0].id, "B");
  EXPECT_EQ(cached.exams()[1].ordinal, 1u);
  EXPECT_TRUE(plan().metadata.empty());
}

TEST_F(Resume, AColumnThatLeftTheManifestSettlesAfterOneUpdate) {
  write_text(scratch / "exams.csv",
             "exam,path,time,patient,grade\nA,0.png,0,p1,1\nA,1.png,5,p1,1\n"
             "B,2.png,0,p2,2\nB,3.png,7,p2,2\n");
  input = frames::list_exams(scratch / "exams.csv", {});
  extract();
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(Resume, AChangedCropIsExtractedAgainAndAnUnchangedOneIsNot) {
  const auto with_crops = [&](const std::string& a, const std::string& b) {
    write_text(scratch / "exams.csv",
               concat("exam,path,crop\nA,0.png,", a, "\nA,1.png,\"0,0,8,8\"\nB,2.png,", b, "\n"));
    input = frames::list_exams(scratch / "exams.csv", {});
  };
  with_crops("\"0,0,8,8\"", "auto");
  extract();
  EXPECT_EQ(plan().unchanged, 2u);
  const cache::CacheReader cached(scratch / "out.cache");
  EXPECT_EQ(cache::column_value(cached.exams()[0], "crop"), "0,0,8,8");
  EXPECT_EQ(cache::column_value(cached.exams()[1], "crop"), "0,0,16,16");
  with_crops("\"4,4,8,8\"", "auto");
  const Plan changed = plan();
  ASSERT_EQ(changed.extract.exams.size(), 1u);
  EXPECT_EQ(changed.extract.exams[0].id, "A");
  extract();
  const cache::CacheReader again(scratch / "out.cache");
  EXPECT_EQ(again.exams()[0].frame_columns.at(0).values,
            (std::vector<std::string>{"4,4,8,8", "0,0,8,8"}));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(Resume, FeaturesOutliveTheirSources) {
  std::filesystem::remove(scratch / "3.png");
  EXPECT_TRUE(plan().extract.exams.empty());
}

TEST_F(Resume, ClipsThatMovedAreKnownByTheirContent) {
  std::filesystem::remove_all(scratch / "out.cache");
  write_dicom_file(scratch / "a/x.dcm", {"1.1", "1.1.1", "p", 1, 1, {10, 20, 30}});
  write_dicom_file(scratch / "a/y.dcm", {"1.1", "1.1.2", "p", 1, 2, {40, 50}});
  const auto state = [&](const std::string& folder) {
    manifest(concat("A,", folder, "/x.dcm,,p,l\nA,", folder, "/y.dcm,,p,l\nB,", folder,
                    "/y.dcm,,p,l\n"));
  };
  const frames::FrameSelection two{2}, one{1};
  for (const auto& selection : {frames::FrameSelection{}, two, one}) {
    std::filesystem::remove_all(scratch / "out.cache");
    state("a");
    extract(selection);
    std::filesystem::rename(scratch / "a", scratch / "b");
    state((scratch / "b").string());
    const Plan moved = plan({selection});
    EXPECT_TRUE(moved.extract.exams.empty());
    EXPECT_EQ(moved.metadata.size(), 2u);
    extract(selection);
    const cache::CacheReader cached(scratch / "out.cache");
    EXPECT_EQ(cached.exams()[0].frame_source[0], (scratch / "b/x.dcm").string());
    EXPECT_EQ(plan({selection}).unchanged, 2u);
    std::filesystem::rename(scratch / "b", scratch / "a");
  }
}

const std::string kA = "A,0.png,0,p1,x\nA,1.png,5,p1,x\n", kB = "B,2.png,0,p2,y\nB,3.png,7,p2,y\n";

TEST_F(Resume, AnIdOfOtherFilesIsRefusedWithBothUntilTheCachedExamIsTakenOut) {
  write_grey_image(scratch / "4.png", 99);
  manifest("A,4.png,0,,x\n" + kB);
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("\n  exam 'A': the cache has '0.png' and 1 more file of patient 'p1', the "
                        "input '4.png'\nGive these exams other ids, take the cached ones out "
                        "(coldframe cache prune CACHE --exams IDS.txt), or give another --out"));
  cache::prune(location(), {"A"});
  extract();
  EXPECT_THAT(cached_exams(), ElementsAre("A  99", "B p2 20"));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(Resume, IdsThatChangedPlacesAreRefusedBoth) {
  manifest("A,2.png,0,p2,y\nA,3.png,7,p2,y\nB,0.png,0,p1,x\nB,1.png,5,p1,x\n");
  const std::string message = testing::message_of<CacheError>([&] { plan(); });
  EXPECT_THAT(message, HasSubstr("exam 'A': the cache has '0.png' and 1 more file of patient 'p1', "
                                 "the input '2.png' and 1 more file of patient 'p2'\n  exam 'B'"));
}

TEST_F(Resume, ChangedFilesAreAnothersOnlyWithAnotherPatient) {
  write_grey_image(scratch / "1.png", 77);
  manifest("A,0.png,0,p9,x\nA,1.png,5,p9,x\n" + kB);
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }), HasSubstr("of patient 'p9'"));
  manifest("A,0.png,0,,x\nA,1.png,5,,x\n" + kB);
  EXPECT_EQ(plan().extract.exams.size(), 1u);  // of a patient who is not known
}

TEST_F(Resume, AnotherPatientsFilesThatCannotBeReadDoNotTakeOverAnId) {
  manifest("A,gone.png,0,p9,x\n" + kB);
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("the input 'gone.png' of patient 'p9'"));
}

TEST_F(Resume, ASourceUnderAnotherIdIsAnExamOfItsOwn) {
  manifest("C,0.png,0,p1,x\nC,1.png,5,p1,x\n" + kB);
  const Plan renamed = plan();
  ASSERT_EQ(renamed.extract.exams.size(), 1u);
  EXPECT_EQ(renamed.extract.exams[0].id, "C");
  EXPECT_EQ(renamed.not_in_input, 1u);
}

TEST_F(Resume, OfManyRefusedIdsTwentyAreListed) {
  std::filesystem::remove_all(scratch / "out.cache");
  std::string before, now;
  for (int i = 0; i < 23; ++i) {
    before += concat("E", i, ",0.png,0,p1,x\n");
    now += concat("E", i, ",1.png,0,p1,x\n");
  }
  manifest(before);
  extract();
  manifest(now);
  const std::string message = testing::message_of<CacheError>([&] { plan(); });
  EXPECT_THAT(message, HasSubstr("exam 'E19'"));
  EXPECT_THAT(message, HasSubstr("\n  … and 3 more\nGive"));
}

}  // namespace
}  // namespace coldframe::extract
