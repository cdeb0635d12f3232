// Exams whose ids and sources no longer go together.
#include "tests/extract/plan/resume_fixture.h"

namespace coldframe::extract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IdChanges : public Resume {};

TEST_F(IdChanges, ASourceUnderAnotherIdStopsUntilRenamed) {
  manifest("B2,2.png,0,p2,y\nB2,3.png,7,p2,y\nA2,0.png,0,p1,x\nA2,1.png,5,p1,x\n");
  const std::string message = testing::message_of<CacheError>([&] { plan(); });
  EXPECT_THAT(message, HasSubstr("exam 'B' is now called 'B2'\n  exam 'A' is now called 'A2'\n"));
  EXPECT_THAT(message, HasSubstr("--rename"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("--replace")));
  EXPECT_THROW(plan({.replace = true}), CacheError);
  const Plan renamed = plan({.rename = true});
  EXPECT_TRUE(renamed.extract.empty());
  EXPECT_EQ(renamed.not_in_input, 0u);
  extract({}, true);
  EXPECT_THAT(cached_exams(), ElementsAre("B2 p2 20", "A2 p1 0"));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(IdChanges, AnExamThatWasMendedUnderAnotherIdIsKnown) {
  const std::string a = "A,0.png,0,p1,x\nA,1.png,5,p1,x\n";
  for (const bool moved : {false, true}) {  // the files lie elsewhere
    for (const bool empty : {false, true}) {
      std::filesystem::remove_all(scratch / "out.cache");
      std::filesystem::remove(scratch / "3.png");
      if (empty) write_text(scratch / "3.png", "");
      manifest(a + "B,2.png,0,p2,y\nB,3.png,7,p2,y\n");
      extract();
      write_grey_image(scratch / "3.png", 30);
      const std::string folder = moved ? "moved/" : "";
      for (const int level : {20, 30})
        write_grey_image(scratch / concat(folder, level / 10, ".png"), level);
      manifest(a + "B2," + folder + "2.png,0,p2,y\nB2," + folder + "3.png,7,p2,y\n");
      EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
                  HasSubstr("exam 'B' is now called 'B2'\nGive --rename"));
      extract({}, true);
      EXPECT_THAT(cached_exams(), ElementsAre("A p1 0", "B2 p2 20"));
      EXPECT_EQ(plan().unchanged, 2u);
    }
  }
  write_grey_image(scratch / "9.png", 90);  // another exam of as many files is another
  std::filesystem::remove(scratch / "3.png");
  manifest(a + "B3,2.png,0,p2,y\nB3,3.png,7,p2,y\n");
  std::filesystem::remove_all(scratch / "out.cache");
  extract();
  manifest(a + "C,9.png,0,p2,y\nC,1.png,7,p2,y\n");
  EXPECT_EQ(plan().not_in_input, 1u);
}

// Another site calls its files alike.
TEST_F(IdChanges, AnExamWithLostFramesIsNotAnothersOfTheSameNames) {
  const std::string a = "A,0.png,0,p1,x\nA,1.png,5,p1,x\n";
  write_text(scratch / "3.png", "");
  std::filesystem::remove_all(scratch / "out.cache");
  manifest(a + "B,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  extract();
  write_grey_image(scratch / "2.png", 77);
  write_grey_image(scratch / "3.png", 78);
  manifest(a + "Q,2.png,0,p9,y\nQ,3.png,7,p9,y\n");
  EXPECT_EQ(plan().not_in_input, 1u);
  extract({}, true);
  EXPECT_THAT(cached_exams(), ElementsAre("A p1 0", "Q p9 77", "B p2 20"));
}

TEST_F(IdChanges, IdsThatChangedPlacesAreRenamedBothWays) {
  manifest("A,2.png,0,p2,y\nA,3.png,7,p2,y\nB,0.png,0,p1,x\nB,1.png,5,p1,x\n");
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("exam 'B' is now called 'A'\n  exam 'A' is now called 'B'"));
  extract({}, true);
  EXPECT_THAT(cached_exams(), ElementsAre("A p2 20", "B p1 0"));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(IdChanges, AnIdOfWhichTheSourceMovedAwayIsExtractedAgain) {
  write_grey_image(scratch / "4.png", 99);
  manifest("A,4.png,0,p3,x\nC,0.png,0,p1,x\nC,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("exam 'A' is now called 'C'\nGive --rename"));
  std::filesystem::remove(scratch / "4.png");
  extract({}, true);  // A fails, and must not answer with what is C's
  EXPECT_THAT(cached_exams(), ElementsAre("C p1 0", "B p2 20"));
}

TEST_F(IdChanges, AnIdOfAnotherSourceStopsUntilReplaced) {
  write_grey_image(scratch / "4.png", 99);
  const std::string b = "B,2.png,0,p2,y\nB,3.png,7,p2,y\n";
  manifest("A,4.png,0,,x\n" + b);
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan({.rename = true}); }),
              HasSubstr("exam 'A' is another one: all of its files are others: '0.png' before, "
                        "'4.png' now\nGive --replace"));
  EXPECT_THAT(plan({.replace = true}).removed, ElementsAre("A"));
  write_grey_image(scratch / "1.png", 77);
  manifest("A,0.png,0,p9,x\nA,1.png,5,p9,x\n" + b);
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("its files changed, and its patient from 'p1' to 'p9'"));
  manifest("A,0.png,0,,x\nA,1.png,5,,x\n" + b);
  EXPECT_EQ(plan().extract.size(), 1u);  // the same files of a patient who is not known
  manifest("A,4.png,0,p9,x\n" + b);
  extract({}, false, true);
  EXPECT_THAT(cached_exams(), ElementsAre("A p9 99", "B p2 20"));
  EXPECT_EQ(plan().unchanged, 2u);
}

TEST_F(IdChanges, AnotherPatientsFilesThatCannotBeReadDoNotTakeOverAnId) {
  manifest("A,gone.png,0,p9,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }), HasSubstr("exam 'A' is another"));
}

TEST_F(IdChanges, ACopyUnderAnotherIdIsAnExamOfItsOwn) {
  manifest(
      "A,0.png,0,p1,x\nA,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\nC,0.png,0,p1,x\n"
      "C,1.png,5,p1,x\n");
  EXPECT_EQ(plan().extract.size(), 1u);
}

TEST_F(IdChanges, AKilledRenamingIsFinishedByTheNextOne) {
  manifest("A2,0.png,0,p1,x\nA2,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  const Plan first = plan({.rename = true});
  cache::rename_exams(location(), first.renamed, {});
  EXPECT_THAT(cached_exams(), ElementsAre("A p1 0", "A2 p1 0", "B p2 20"));
  EXPECT_THAT(plan({.rename = true}).removed, ElementsAre("A"));
  extract({}, true);
  EXPECT_THAT(cached_exams(), ElementsAre("A2 p1 0", "B p2 20"));
}

TEST_F(IdChanges, ARemovedIdTakesItsFailuresAlong) {
  const std::string whole = scratch.read("1.png");
  scratch.write("1.png", whole.substr(0, whole.size() / 2));
  extract();  // fails after it was cached
  scratch.write("1.png", whole);
  extract();
  manifest("A2,0.png,0,p1,x\nA2,1.png,5,p1,x\nB,2.png,0,p2,y\nB,3.png,7,p2,y\n");
  extract({}, true);
  EXPECT_TRUE(cache::CacheReader(scratch / "out.cache").failures().empty());
  EXPECT_THAT(cached_exams(), ElementsAre("A2 p1 0", "B p2 20"));
}

TEST_F(IdChanges, ClipsThatMovedAreKnownByTheirContent) {
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
    EXPECT_TRUE(moved.extract.empty());
    EXPECT_EQ(moved.metadata.size(), 2u);
    extract(selection);
    const cache::CacheReader cached(scratch / "out.cache");
    EXPECT_EQ(cached.exams()[0].frame_source[0], (scratch / "b/x.dcm").string());
    EXPECT_EQ(plan({selection}).unchanged, 2u);
    std::filesystem::rename(scratch / "b", scratch / "a");
  }
}

TEST_F(IdChanges, AnOldCacheOfDicomSeriesIsCarriedOver) {
  std::filesystem::remove_all(scratch / "out.cache");
  for (int series : {1, 2})
    for (int i : {1, 2})
      write_dicom_file(scratch / concat("in/", series, i), {concat("1.", series),
                                                            concat("1.", series, ".", i),
                                                            concat("p", series),
                                                            1,
                                                            i,
                                                            {100 * series + i}});
  input = frames::list_exams(scratch / "in", {});
  const auto now = input;
  input.exams[0].id = "series-1";
  input.exams[1].id = "series-1-2";
  extract();
  const auto before = cached_exams();
  input = now;
  EXPECT_THAT(testing::message_of<CacheError>([&] { plan(); }),
              HasSubstr("exam 'series-1' is now called 'US-1-"));
  EXPECT_TRUE(plan({.rename = true}).extract.empty());
  extract({}, true);
  const auto after = cached_exams();
  ASSERT_EQ(after.size(), 2u);
  for (std::size_t i : {0u, 1u})
    EXPECT_EQ(after[i].substr(after[i].find(' ')), before[i].substr(before[i].find(' ')));
  EXPECT_EQ(plan().unchanged, 2u);
}

}  // namespace
}  // namespace coldframe::extract
