#include "common/system/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

JobStep step(const Variables& variables) {
  return job_step([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(JobStep, IsOneProcessWithoutALauncher) {
  for (const Variables& variables :
       {Variables{}, Variables{{"LOCAL_RANK", "1"}},
        // A shell within an allocation, a batch script and an element of an array: no job steps.
        Variables{{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}},
        Variables{{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
        Variables{{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_COUNT", "8"}}})
    EXPECT_FALSE(step(variables).several());
}

TEST(JobStep, IsAsTorchrunOrSrunSays) {
  const JobStep torchrun =
      step({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(torchrun.index, 3);
  EXPECT_EQ(torchrun.count, 4);
  EXPECT_EQ(torchrun.local_index, 1);
  EXPECT_EQ(torchrun.local_count, 2);
  EXPECT_EQ(torchrun.source, "RANK");
  Variables srun = {
      {"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(step(srun).count, 8);
  srun["SLURM_STEP_NUM_TASKS"] = "2";
  EXPECT_EQ(step(srun).count, 2);
  EXPECT_EQ(step(srun).index, 1);
  EXPECT_EQ(step(srun).local_index, 1);
  EXPECT_EQ(step(srun).source, "SLURM_PROCID");
}

TEST(JobStep, RefusesByNameWhatIsSetInPart) {
  const auto refusal = [](const Variables& variables) {
    return testing::message_of<ConfigError>([&] { step(variables); });
  };
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("RANK is there and WORLD_SIZE is not"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}}), HasSubstr("WORLD_SIZE is there and RANK is not"));
  EXPECT_THAT(refusal({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}),
              HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("no such process"));
  EXPECT_THAT(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK='-1'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "two"}}), HasSubstr("WORLD_SIZE='two'"));
}

}  // namespace
}  // namespace coldframe
