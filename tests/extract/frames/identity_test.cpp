// Patients as they are stored, whatever names them.
#include "extract/frames/input/identity.h"

#include <gtest/gtest.h>

#include "tests/extract/frames/listed.h"

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
      "exam,path,patient\na,1.png,Meier\nb,1.png,MEIER\nc,1.png,Meier\nd,1.png,007\n"
      "e,1.png,7\n";
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

}  // namespace
}  // namespace coldframe::frames
