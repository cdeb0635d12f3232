#include "extract/patient_salt.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "tests/extract/support.h"

namespace coldframe {
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

TEST_F(PatientSalt, AnEmptyFileIsRefusedByName) {
  std::filesystem::create_directories(patient_salt_path().parent_path());
  write_text(patient_salt_path(), "\n");
  const auto message =
      testing::message_of<DataError>([&] { list_exams_salted(scratch / "in", {}); });
  EXPECT_NE(message.find("--patient-salt"), std::string::npos) << message;
}

}  // namespace
}  // namespace coldframe
