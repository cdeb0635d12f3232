// --exam-from: exams and patients out of paths.
#include "extract/input/path_pattern.h"

#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;

TEST(PathPattern, FindsItsGroupsAnywhere) {
  PathPattern::Names names;
  const PathPattern pattern(R"(P(?<patient>\d+)/(a|b)?(?<exam>.+))");
  ASSERT_TRUE(pattern.match("ward/P12/avisit 1", names));
  EXPECT_EQ(names.patient, "12");
  EXPECT_EQ(names.exam, "visit 1");
  EXPECT_FALSE(pattern.match("ward/Q12/visit", names));
  ASSERT_TRUE(PathPattern(R"([(]\((?:x)(?<exam>y))").match("((xy", names));
  EXPECT_EQ(names.exam, "y");
  EXPECT_EQ(names.patient, "");
  ASSERT_TRUE(PathPattern(R"((?P<patient>\w)(x)(?P<exam>\w))").match("axb", names));  // Python's
  EXPECT_EQ(names.patient + names.exam, "ab");
}

TEST(PathPattern, SaysWhatIsWrongWithIt) {
  const auto message = [](const char* pattern) {
    return message_of<ConfigError>([&] { PathPattern{pattern}; });
  };
  for (const auto& [pattern, reason] :
       {std::pair{"(.+)", "it has no group (?<exam>…)"},
        {"(?<exam>.+)(?<exam>.+)", "the group 'exam' occurs twice"},
        {"(?<Exam>.+)", "the group 'Exam' is neither 'exam' nor 'patient'"},
        {"(?P<Exam>.+)", "the group 'Exam' is neither 'exam' nor 'patient'"},
        {"(?<exam", "the group 'exam' is neither"},
        {"(?<exam>.+", "it is malformed"},
        {"(?<exam>(a)\\2)", "back-references are not supported"}}) {
    EXPECT_NE(message(pattern).find(reason), std::string::npos) << message(pattern);
    EXPECT_NE(message(pattern).find("expected a regular expression such as"), std::string::npos);
  }
}

// With back-tracking this takes 2^4000 steps.
TEST(PathPattern, TakesPolynomialTimeOnAnyPath) {
  PathPattern::Names names;
  EXPECT_FALSE(PathPattern("^(?<exam>(a+)+)$").match(std::string(4000, 'a') + "!", names));
}

}  // namespace
}  // namespace coldframe::frames
