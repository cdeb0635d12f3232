// What a run removes beside itself, and what not.
#include "train_temporal/run/run_folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "train_temporal/run/own_run.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;
using coldframe::testing::TemporaryFolder;

const Json kConfig = {{"coldframe", "0"}, {"data_digest", "0"}};

// A run that others share and one of them has finished, while this process was about to join.
struct LateProcess {
  TemporaryFolder folder;
  RunFolder run{folder / "run", {false, false, true}};
  LateProcess() {
    fs::create_directories(folder / "run");
    fs::create_directories(folder / "run.unfinished" / kStateFolder);
    folder.write("run/config.json", kConfig.dump());
  }
};

TEST(RunFolder, RemovesWhatIsLeftOfASharedRunAndNothingElse) {
  for (const bool strange : {false, true}) {
    LateProcess late;
    if (strange) late.folder.write("run.unfinished/thesis.docx", "mine");
    late.run.remove_remains();
    EXPECT_EQ(fs::exists(late.folder / "run.unfinished"), strange);
    EXPECT_EQ(fs::exists(late.folder / "run.unfinished/thesis.docx"), strange);
  }
}

}  // namespace
}  // namespace coldframe::temporal
