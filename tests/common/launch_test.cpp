#include "common/processes/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/cli/error.h"

namespace coldframe {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch(const Variables& variables) {
  return launch_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun = {{"RANK", "3"},           {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}};
const Variables kSrun = {{"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_STEP_NODELIST", "gpu[07-08]"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Launch, IsOneProcessWithoutALauncher) {
  for (const Variables& variables :
       {Variables{}, Variables{{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}},
        // A shell within an allocation, and a batch script: no job steps.
        Variables{{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}},
        Variables{{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}}) {
    EXPECT_FALSE(launch(variables).several());
    EXPECT_EQ(launch(variables).rank, 0);
  }
}

TEST(Launch, ReadsWhatTorchrunSets) {
  const Launch found = launch(kTorchrun);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_EQ(found.master_address, "head");
  EXPECT_EQ(found.master_port, 29500);
  EXPECT_EQ(found.store_prefix, "");
  const Variables agent = with(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"),
                               "TORCHELASTIC_RESTART_COUNT", "2");
  EXPECT_EQ(launch(agent).store_prefix, "/worker/attempt_2");
}

TEST(Launch, ReadsWhatSrunSets) {
  const Launch found = launch(kSrun);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.size, 2);
  EXPECT_EQ(found.local_rank, 0);
  EXPECT_EQ(found.master_address, "gpu07");
  EXPECT_GE(found.master_port, 20000);
  EXPECT_EQ(found.master_port, launch(with(kSrun, "SLURM_PROCID", "0")).master_port);
  EXPECT_NE(found.master_port, launch(with(kSrun, "SLURM_STEP_ID", "3")).master_port);
  const Launch given = launch(with(with(kSrun, "MASTER_ADDR", "head"), "MASTER_PORT", "4000"));
  EXPECT_EQ(given.master_address, "head");
  EXPECT_EQ(given.master_port, 4000);
  EXPECT_FALSE(
      launch(with(with(kSrun, "SLURM_STEP_NUM_TASKS", "1"), "SLURM_PROCID", "0")).several());
}

TEST(Launch, TorchrunWithinAJobStepIsTorchruns) {
  Variables both = kSrun;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(launch(both).size, 4);
}

TEST(Launch, RefusesAnEnvironmentThatIsPartlySetByName) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    try {
      launch(without(kTorchrun, name));
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      const std::string missing = std::string(name) + " is missing";
      EXPECT_THAT(error.what(), ::testing::HasSubstr(missing));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("unset"));
    }
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NODELIST"}) {
    try {
      launch(without(kSrun, name));
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(name));
    }
  }
  EXPECT_THROW(launch({{"SLURM_PROCID", "0"}}), ConfigError);
}

TEST(Launch, RefusesWhatIsNoRank) {
  const std::pair<const char*, const char*> cases[] = {
      {"RANK", "4"},        {"RANK", "-1"},       {"RANK", "one"},         {"WORLD_SIZE", "0"},
      {"MASTER_PORT", "0"}, {"LOCAL_RANK", "1x"}, {"MASTER_PORT", "65536"}};
  for (const auto& [name, value] : cases) {
    try {
      launch(with(kTorchrun, name, value));
      ADD_FAILURE() << name << "=" << value;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(name));
    }
  }
  EXPECT_THROW(launch(with(kSrun, "SLURM_PROCID", "2")), ConfigError);
}

TEST(Launch, FindsTheFirstHostOfAList) {
  const std::pair<const char*, const char*> cases[] = {{"node1", "node1"},
                                                       {"node1,node2", "node1"},
                                                       {"node[07-09,12],x", "node07"},
                                                       {"gpu[3,5]", "gpu3"},
                                                       {"a,b[1-2]", "a"},
                                                       {"n[1-2]-ib,n9", "n1-ib"},
                                                       {"r1c[10-11].site", "r1c10.site"},
                                                       {"", ""},
                                                       {"broken[1", ""}};
  for (const auto& [list, host] : cases) EXPECT_EQ(first_host(list), host) << list;
}

}  // namespace
}  // namespace coldframe
