// A cap on what tensors take: batches are cut until they fit, and the fit stays the same.
#include "common/torch/cpu_memory.h"
#include "made_data.h"

namespace coldframe::temporal {
namespace {

class MemoryBudget : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    count_cpu_memory();
  }
  void TearDown() override { count_cpu_memory(0); }
};

// Features, parameters and their moments must fit; the pieces of a batch are cut until they do.
TEST_F(MemoryBudget, CutsBatchesToTheMemoryThatThereIs) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(48, 60), 32);
  std::vector<int> labels;
  for (int i = 0; i < 48; ++i) labels.push_back(i % 3 == 0);
  Split split = testing::thirds(48);
  split.train.insert(split.train.end(), split.test.begin(), split.test.end());
  FitOptions options;
  options.epochs = 3;
  options.batch = 32;
  for (const char* model : {"gru", "lstm"}) {
    ModelConfig config = testing::small_config(dataset, model);
    config.hidden = 32;
    const FitTask task{dataset, labels, split, config, options, 9, 2};
    const std::uint64_t before = cpu_memory().live;
    reset_cpu_memory_peak();
    const FitResult whole = testing::run_to_end(task);
    const std::uint64_t needed = cpu_memory().peak - before;
    EXPECT_EQ(whole.pieces.training, 32u);
    for (const double share : {1.0, 0.5, 0.25}) {
      const std::uint64_t live = cpu_memory().live;
      const auto limit = live + static_cast<std::uint64_t>(share * double(needed));
      count_cpu_memory(limit);
      reset_cpu_memory_peak();
      const FitResult cut = testing::run_to_end(task);
      count_cpu_memory(0);
      EXPECT_LE(cpu_memory().peak, limit);
      EXPECT_EQ(cut.pieces.training < 32, share < 1) << model << " " << share;
      for (std::size_t epoch = 0; epoch < whole.history.size(); ++epoch) {
        EXPECT_NEAR(cut.history[epoch].train, whole.history[epoch].train, 1e-5);
        EXPECT_NEAR(cut.history[epoch].validation, whole.history[epoch].validation, 1e-5);
      }
    }
    count_cpu_memory(cpu_memory().live + 4096);
    EXPECT_THROW(testing::run_to_end(task), std::exception);
    count_cpu_memory(0);
  }
}

}  // namespace
}  // namespace coldframe::temporal
