#include "extract/input/exam_list.h"
#include "extract/pipeline/part_of_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::extract {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Variables array(int task, int first, int last, int step, int count) {
  return {{"SLURM_ARRAY_TASK_ID", std::to_string(task)},
          {"SLURM_ARRAY_TASK_MIN", std::to_string(first)},
          {"SLURM_ARRAY_TASK_MAX", std::to_string(last)},
          {"SLURM_ARRAY_TASK_STEP", std::to_string(step)},
          {"SLURM_ARRAY_TASK_COUNT", std::to_string(count)}};
}

void expect_part(const Part& part, std::uint32_t index, std::uint32_t count) {
  EXPECT_EQ(part.index, index);
  EXPECT_EQ(part.count, count);
  EXPECT_EQ(part.shared(), count > 1);
}

TEST(Part, IsSaidByTheOptionOrTheEnvironment) {
  expect_part(choose_part("", environment({})), 0, 1);
  expect_part(choose_part("off", environment(array(3, 0, 7, 1, 8))), 0, 1);
  expect_part(choose_part("2/5", environment(array(3, 0, 7, 1, 8))), 2, 5);
  expect_part(choose_part("", environment(array(3, 0, 7, 1, 8))), 3, 8);
  expect_part(choose_part("", environment(array(14, 2, 14, 4, 4))), 3, 4);
  Variables step{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}};
  expect_part(choose_part("", environment(step)), 1, 4);
  Variables both = array(3, 0, 7, 1, 8);
  both.insert(step.begin(), step.end());
  expect_part(choose_part("", environment(both)), 13, 32);
  expect_part(choose_part("", environment({{"RANK", "2"}, {"WORLD_SIZE", "3"}})), 2, 3);
  step.erase("SLURM_STEP_ID");  // a batch script, of which there is one
  expect_part(choose_part("", environment(step)), 0, 1);
}

TEST(Part, RefusesWhatIsPartlySetOrDoesNotGoTogether) {
  const auto refusal = [](const std::string& option, const Variables& variables) {
    return message_of<ConfigError>([&] { choose_part(option, environment(variables)); });
  };
  for (const char* option : {"1", "/", "4/4", "-1/4", "1/x", "1/2/3", "0/9001", "0/0"})
    EXPECT_THAT(refusal(option, {}), HasSubstr("expected I/N")) << option;
  Variables without = array(3, 0, 7, 1, 8);
  without.erase("SLURM_ARRAY_TASK_COUNT");
  EXPECT_THAT(refusal("", without), HasSubstr("SLURM_ARRAY_TASK_COUNT is not"));
  EXPECT_THAT(refusal("", array(5, 1, 7, 1, 3)), HasSubstr("leave some out"));
  EXPECT_THAT(refusal("", {{"SLURM_ARRAY_TASK_ID", "x"}}), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal("", {{"JOB_COMPLETION_INDEX", "2"}}), HasSubstr("JOB_COMPLETION_INDEX"));
  Variables endless = array(0, 0, 1, 1, 2);  // whose product with the tasks is beyond 64 bits
  endless.insert(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9223372036854775807"}});
  EXPECT_THAT(refusal("", endless), HasSubstr("at most"));
  EXPECT_THAT(
      refusal("3/8", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}}),
      HasSubstr("--ntasks=1"));
  EXPECT_THAT(refusal("", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}}),
              HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(refusal("", {{"RANK", "2"}}), HasSubstr("WORLD_SIZE is not"));
  EXPECT_THAT(refusal("", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "4"}}),
              HasSubstr("no such process"));
}

TEST(Part, HasEveryExamOnceWhateverTheirNumber) {
  for (std::uint32_t count = 1; count <= 64; ++count)
    for (std::size_t exams = 0; exams <= 200; ++exams) {
      std::vector<std::uint64_t> frames(exams);
      for (std::size_t i = 0; i < exams; ++i) frames[i] = (i * 7919) % 97;
      for (const bool surveyed : {false, true}) {
        const auto parts =
            assign_parts(exams, surveyed ? frames : std::vector<std::uint64_t>(), count);
        ASSERT_EQ(parts.size(), exams);
        std::vector<std::size_t> sizes(count);
        for (const std::uint32_t part : parts) {
          ASSERT_LT(part, count);
          ++sizes[part];
        }
        if (!surveyed) {
          EXPECT_LE(std::ranges::max(sizes) - std::ranges::min(sizes), 1u);
        }
      }
    }
}

TEST(Part, HasAboutAsManyFramesAsTheOthers) {
  std::vector<std::uint64_t> frames(1000);
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = i % 50 == 0 ? 500 : 5 + i % 7;
  std::vector<std::uint64_t> loads(16);
  const auto parts = assign_parts(frames.size(), frames, 16);
  for (std::size_t i = 0; i < parts.size(); ++i) loads[parts[i]] += frames[i];
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / 16;
  EXPECT_LE(static_cast<double>(std::ranges::max(loads)), 1.05 * mean);
  EXPECT_EQ(parts, assign_parts(frames.size(), frames, 16));
}

TEST(Part, TakesFramesFromADryRunsSurvey) {
  const testing::TemporaryFolder folder;
  frames::ExamList input;
  for (const char* id : {"a", "b", "c"}) {
    input.exams.emplace_back();
    input.exams.back().id = id;
  }
  std::ofstream(folder / "s.json") << R"({"exams": [{"exam": "a", "selected": 4},
                                         {"exam": "c", "selected": 12}]})";
  EXPECT_EQ(surveyed_frames(folder / "s.json", input), (std::vector<std::uint64_t>{4, 8, 12}));
  std::ofstream(folder / "other.json") << R"({"exams": [{"exam": "z", "selected": 4}]})";
  EXPECT_THAT(message_of<DataError>([&] { surveyed_frames(folder / "other.json", input); }),
              HasSubstr("none of the input's exams"));
  std::ofstream(folder / "bad.json") << R"({"exams": 3})";
  EXPECT_THAT(message_of<DataError>([&] { surveyed_frames(folder / "bad.json", input); }),
              HasSubstr("--dry-run"));
}

}  // namespace
}  // namespace coldframe::extract
