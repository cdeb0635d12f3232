#include "train_temporal/run/unlike_training.h"

#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "common/torch/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::temporal {
namespace {

class UnlikeTrainingFile : public ::testing::Test {
 protected:
  void write(const std::string& format) {
    write_sealed_safetensors(folder_.path() / kUnlikeFile, {{"mean", torch::zeros({4})}},
                             {{"format", format}});
  }
  coldframe::testing::TemporaryFolder folder_;
};

TEST_F(UnlikeTrainingFile, MayBeMissing) {
  EXPECT_FALSE(UnlikeTraining::read(folder_.path(), 4));
}

TEST_F(UnlikeTrainingFile, OfAnUnknownFormatOrWithoutItsTensorsIsRefused) {
  write("coldframe.unlike.9");
  EXPECT_THROW(UnlikeTraining::read(folder_.path(), 4), DataError);
  write("coldframe.unlike.1");
  EXPECT_THROW(UnlikeTraining::read(folder_.path(), 4), DataError);
}

}  // namespace
}  // namespace coldframe::temporal
