// Patients as they are stored, whatever names them.
#include "extract/input/exam_list.h"
#include "extract/input/patients.h"

#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/extract/input/listed.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::TemporaryFolder;

TEST(Patients, AreHashedByOneRuleWhateverNamesThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in/Müller, Anna/visit");
  folder.write("in/Müller, Anna/visit/1.png", kPngSignature);
  folder.write("1.png", kPngSignature);
  ExamListOptions salted;
  salted.reader.patient_salt = "pepper";
  ExamListOptions by_path = salted;
  by_path.exam_from = "(?P<patient>[^/]+)/(?P<exam>.+)";
  const auto of_folder = list_exams(folder / "in", by_path);
  const auto of_manifest =
      list(folder, "exam,path,patient\nvisit,1.png,\"Müller, Anna\"\n", salted);
  const std::string hash = of_folder.exams.at(0).patient;
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(of_manifest.exams.at(0).patient, hash);
  EXPECT_EQ(of_manifest.patients.hashed, true);
  EXPECT_EQ(of_manifest.patients.salt.size(), 6u);
  // The hash hides nothing that the files' names tell.
  EXPECT_EQ(of_folder.patients.shown_by_names, 1u);
  EXPECT_EQ(of_manifest.patients.shown_by_names, 0u);
  EXPECT_NE(patients_text(of_folder.patients).find("of 1 exam show them all the same"),
            std::string::npos);

  by_path.reader.keep_patient_id = true;
  const auto kept = list_exams(folder / "in", by_path);
  EXPECT_EQ(kept.exams.at(0).patient, "Müller, Anna");
  EXPECT_EQ(kept.patients.hashed, false);
  EXPECT_FALSE(list(folder, "exam,path\na,1.png\n", salted).patients.hashed);
  salted.reader.patient_salt = "salt";
  const auto other = list(folder, "exam,path,patient\nP1-2,1.png,P1\nP12,1.png,P1\n", salted);
  EXPECT_NE(other.patients.salt, of_manifest.patients.salt);
  EXPECT_EQ(other.patients.shown_by_names, 1u);
}

TEST(Patients, AreOnePersonInTwoSpellingsBeforeTheyAreHashed) {
  const TemporaryFolder folder;
  folder.write("1.png", kPngSignature);
  const char* rows =
      "exam,path,patient\na,1.png,Meier\nb,1.png,MEIER\nc,1.png,Meier\nd,1.png,P07\n"
      "e,1.png,P7\n";
  ExamListOptions options;
  options.reader.patient_salt = "pepper";
  const auto hashed = list(folder, rows, options);
  EXPECT_EQ(hashed.exams.at(1).patient, hashed.exams.at(0).patient);
  EXPECT_EQ(hashed.exams.at(0).patient, stored_identity("Meier", options.reader));
  EXPECT_EQ(count_patients(hashed), 3u);
  ASSERT_EQ(hashed.warnings.size(), 1u);
  EXPECT_NE(hashed.warnings[0].find("taken as one person, in 1 exam;"), std::string::npos);
  options.reader.keep_patient_id = true;
  EXPECT_NE(list(folder, rows, options).warnings.at(0).find("'MEIER' as 'Meier'"),
            std::string::npos);
}

std::string refusal(const TemporaryFolder& folder, const char* rows,
                    const ExamListOptions& options) {
  try {
    list(folder, rows, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// In one input and from one job to the next: a Mac's folder names, a byte order mark, capitals.
TEST(Patients, HaveOneHashInEverySpellingOfUnicode) {
  const TemporaryFolder folder;
  folder.write("1.png", kPngSignature);
  ExamListOptions options;
  options.reader.patient_salt = "pepper";
  const auto hash_of = [&](const std::string& patient) {
    return list(folder, "exam,path,patient\na,1.png," + patient + "\n", options).exams[0].patient;
  };
  for (const char* same : {"Gro\u00df J\u00fcrgen", "Gross Ju\u0308rgen", "GROSS J\u00dcRGEN",
                           "Gro\u00df J\u200b\u00fcrgen", "\ufeffGro\u00df J\u00fcrgen"})
    EXPECT_EQ(hash_of(same), hash_of("Gross J\u00fcrgen")) << same;
  EXPECT_NE(hash_of("Gross J\u00fcrgen"), hash_of("Gross Jurgen"));

  std::filesystem::create_directories(folder / "in/Mu\u0308ller");
  std::filesystem::create_directories(folder / "in/M\u00fcller");
  folder.write("in/Mu\u0308ller/a.png", kPngSignature);
  folder.write("in/M\u00fcller/b.png", kPngSignature);
  options.exam_from = "(?P<patient>[^/]+)/(?P<exam>.+)";
  EXPECT_EQ(count_patients(list_exams(folder / "in", options)), 1u);
}

TEST(Patients, WhoseIdsAreEqualAsNumbersAreAskedAbout) {
  const TemporaryFolder folder;
  folder.write("1.png", kPngSignature);
  for (const char* other : {"0123", "123.0"}) {
    const std::string rows = std::string("exam,path,patient\na,1.png,123\nb,1.png,") + other + "\n";
    ExamListOptions options;
    options.reader.patient_salt = "pepper";
    const std::string hidden = refusal(folder, rows.c_str(), options);
    EXPECT_NE(hidden.find("the exams 'a' and 'b'"), std::string::npos) << hidden;
    EXPECT_NE(hidden.find("--equal-numbers different"), std::string::npos) << hidden;
    EXPECT_NE(refusal(folder, rows.c_str(), as_named()).find(std::string("('123' and '") + other),
              std::string::npos);
    options.reader.equal_numbers = EqualNumbers::kDifferent;
    EXPECT_EQ(count_patients(list(folder, rows, options)), 2u);
    options.reader.equal_numbers = EqualNumbers::kSame;
    EXPECT_EQ(count_patients(list(folder, rows, options)), 1u);
  }
}

TEST(Patients, ExamsOfOneNameInTwoSpellingsAreWarnedAbout) {
  const TemporaryFolder folder;
  folder.write("1.png", kPngSignature);
  const auto found = list(folder, "exam,path\nM\u00fcller,1.png\nMu\u0308ller,1.png\nb,1.png\n");
  EXPECT_EQ(found.exams.size(), 3u);
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_NE(found.warnings[0].find("have ids that differ in spelling alone"), std::string::npos);
}

}  // namespace
}  // namespace coldframe::frames
