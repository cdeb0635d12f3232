#include "extract/input/patients.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/files/publish/file_calls.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

// The place of the salt is a folder of the test's own.
class PatientSalt : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;

  void SetUp() override {
    ::setenv("XDG_DATA_HOME", scratch.operator/("data").c_str(), 1);
    write_grey_image(scratch / "in/a.png", 10);
  }
  void TearDown() override { ::unsetenv("XDG_DATA_HOME"); }
};

TEST_F(PatientSalt, LiesWhereTheUserKeepsData) {
  EXPECT_EQ(patient_salt_path(), scratch / "data/coldframe/patient-salt");
  ::setenv("XDG_DATA_HOME", "relative", 1);
  ::setenv("HOME", "/somewhere", 1);
  EXPECT_EQ(patient_salt_path(), "/somewhere/.local/share/coldframe/patient-salt");
}

TEST_F(PatientSalt, IsNotMadeForFilesThatNameNoPatient) {
  EXPECT_EQ(list_exams_salted(scratch / "in", {}).exams.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(patient_salt_path()));
}

TEST_F(PatientSalt, IsMadeForAManifestThatNamesOne) {
  write_text(scratch / "in/m.csv", "exam,path,patient\na,a.png,P1\n");
  const auto list = list_exams_salted(scratch / "in/m.csv", {});
  EXPECT_EQ(list.exams.at(0).patient.size(), 16u);
  EXPECT_TRUE(std::filesystem::exists(patient_salt_path()));
  EXPECT_EQ(list_exams_salted(scratch / "in/m.csv", {}).exams[0].patient, list.exams[0].patient);
}

// A DICOM file that is cut off: its exam fails, but it might have named a patient.
void write_dicom(const std::filesystem::path& path) {
  write_text(path, std::string(128, '\0') + "DICM" + std::string("\x02\0\x10\0UI\xff\x7f", 8));
}

TEST_F(PatientSalt, IsMadeOnceForFilesThatMayNameOne) {
  write_dicom(scratch / "in/b.dcm");
  list_exams_salted(scratch / "in", {});
  const std::string salt = scratch.read("data/coldframe/patient-salt");
  EXPECT_EQ(salt.size(), 64u);
  list_exams_salted(scratch / "in", {});
  EXPECT_EQ(scratch.read("data/coldframe/patient-salt"), salt);
}

TEST_F(PatientSalt, AnEmptyOrUnreadableFileIsRefusedByNameWherePatientsMayBeNamed) {
  const auto path = patient_salt_path();
  std::filesystem::create_directories(path.parent_path());
  const auto message = [&] {
    return testing::message_of<DataError>([&] { list_exams_salted(scratch / "in", {}); });
  };
  for (const bool is_folder : {false, true}) {
    std::filesystem::remove(scratch / "in/b.dcm");
    std::filesystem::remove(path);
    if (is_folder)
      std::filesystem::create_directory(path);
    else
      write_text(path, "\n");
    EXPECT_EQ(list_exams_salted(scratch / "in", {}).exams.size(), 1u);
    write_dicom(scratch / "in/b.dcm");
    EXPECT_NE(message().find(path.string()), std::string::npos) << message();
    EXPECT_NE(message().find("give --patient-salt"), std::string::npos) << message();
  }
}

// Both its bytes and its name are on the disk when it is used.
TEST_F(PatientSalt, SurvivesAPowerCut) {
  write_dicom(scratch / "in/b.dcm");
  std::vector<std::string> calls;
  set_file_fault_hook([&](std::string_view call, const std::filesystem::path& path) {
    if (path.string().find("coldframe") != std::string::npos) calls.emplace_back(call);
    return 0;
  });
  list_exams_salted(scratch / "in", {});
  set_file_fault_hook({});
  const auto renamed = std::ranges::find(calls, "rename");
  ASSERT_NE(renamed, calls.end());
  EXPECT_NE(std::find(calls.begin(), renamed, "fsync"), renamed);
  EXPECT_NE(std::find(renamed, calls.end(), "fsync_folder"), calls.end());
  struct stat status = {};
  ASSERT_EQ(::stat(patient_salt_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(PatientSalt, TellsWhyItCannotBeKept) {
  write_dicom(scratch / "in/b.dcm");
  write_text(scratch / "data", "a file where a folder should be");
  ::testing::internal::CaptureStderr();
  list_exams_salted(scratch / "in", {});
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("cannot be kept"), std::string::npos) << told;
  EXPECT_EQ(told.find("Success"), std::string::npos) << told;
}

}  // namespace
}  // namespace coldframe::extract
