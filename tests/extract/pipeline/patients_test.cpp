#include "extract/pipeline/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/writer.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::extract {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const frames::PatientNames kNone, kNamed{false}, kHashed{true, "3fa91c"},
    kOtherSalt{true, "000000"};

class Patients : public ::testing::Test {
 protected:
  // A cache of one exam whose patient was stored like this.
  void cache_of(const std::string& patient, const std::string& note) {
    std::filesystem::remove_all(scratch / "x.cache");
    cache::Recipe recipe;
    if (!note.empty()) recipe.notes["patients"] = note;
    cache::ShardWriter writer(cache::locate(scratch / "x.cache"), recipe, 1, {});
    cache::ExamFeatures exam;
    exam.info.id = "a";
    exam.info.patient = patient;
    exam.info.time_s = {0};
    exam.info.present = {1};
    exam.info.frame_index = {0};
    exam.info.frame_source = {"a.png"};
    exam.views = {{"clean", {1.0f}}};
    writer.add(std::move(exam));
    writer.finish();
  }
  std::string refusal(const frames::PatientNames& now) {
    try {
      check_patients(now, cache::CacheReader(scratch / "x.cache"), "x.cache");
    } catch (const CacheError& error) {
      return error.what();
    }
    return "";
  }

  testing::TemporaryFolder scratch;
};

TEST_F(Patients, ACacheGoesOnAsItBegan) {
  for (const auto& [stored, names] : {std::pair{"P1", kNamed}, {"0123456789abcdef", kHashed}}) {
    for (const std::string& note :
         {patients_note(names), std::string()}) {  // "": of an input without patients
      cache_of(stored, note);
      EXPECT_EQ(refusal(names), "") << note;
      EXPECT_EQ(refusal(kNone), "");
    }
  }
  cache_of("", "");
  EXPECT_EQ(refusal(kHashed) + refusal(kNamed), "");
}

TEST_F(Patients, NamesAndHashesDoNotMeetInACache) {
  for (const std::string& note : {patients_note(kNamed), std::string()}) {
    cache_of("P1", note);
    EXPECT_THAT(refusal(kHashed),
                AllOf(HasSubstr("stores patients as they are named (such as 'P1'), and this run as "
                                "hashes: give --keep-patient-id"),
                      HasSubstr("; or give another --out")));
  }
  for (const std::string& note : {patients_note(kHashed), std::string()}) {
    cache_of("0123456789abcdef", note);
    EXPECT_THAT(refusal(kNamed), HasSubstr("leave out --keep-patient-id"));
  }
}

TEST_F(Patients, HashesOfTwoSaltsDoNotMeetEither) {
  cache_of("0123456789abcdef", patients_note(kHashed));
  EXPECT_THAT(
      refusal(kOtherSalt),
      AllOf(HasSubstr("hashes of salt 3fa91c"),
            HasSubstr("hashes of salt 000000 (NFKC_Casefold): give the salt that the cache was "
                      "made with")));
}

TEST_F(Patients, HashesInWhichZerosCountDoNotMeetThoseInWhichTheyDoNot) {
  frames::PatientNames numbers_alike = kHashed;
  numbers_alike.numbers_alike = true;
  cache_of("0123456789abcdef", patients_note(kHashed));
  EXPECT_THAT(refusal(numbers_alike), HasSubstr("without --equal-numbers same: leave it out"));
  cache_of("0123456789abcdef", patients_note(numbers_alike));
  EXPECT_THAT(refusal(kHashed), HasSubstr("with --equal-numbers same: give it here, too"));
  EXPECT_EQ(refusal(numbers_alike), "");
}

}  // namespace
}  // namespace coldframe::extract
