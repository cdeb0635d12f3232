// What a training step does for a device, as far as a CPU shows it: the same random bits, no copy
// that could be spared, and no waiting.
#include <ATen/record_function.h>
#include <torch/library.h>

#include "common/torch/to_device.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/fit/optimizer.h"
#include "train_temporal/fit/step.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/kernels/kernels.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {
namespace {

const std::vector<std::uint64_t> kStarts = {0, 1, 0x7fffffffffffffff, 0xfffffffffffffffe, 1u << 31};

TEST(DeviceDraws, AreTheBitsOfTheKernels) {
  for (const std::int64_t width : {1, 4, 31, 32, 33, 384})
    for (const int threshold : {0, 1, 30000, 32768, 40000, 65535}) {
      const Drop drop{0, static_cast<std::uint16_t>(threshold), 1.25f};
      torch::Tensor mask = torch::empty({std::ssize(kStarts), width});
      torch::Tensor noise = torch::zeros_like(mask);
      for (std::size_t row = 0; row < kStarts.size(); ++row) {
        float* const at = mask[static_cast<std::int64_t>(row)].data_ptr<float>();
        plain_kernels().drop(width, {kStarts[row], drop.threshold, drop.scale}, at);
        plain_kernels().add_noise(width, {kStarts[row], 0.3f},
                                  noise[static_cast<std::int64_t>(row)].data_ptr<float>());
      }
      EXPECT_TRUE(draw_mask(kStarts, width, drop.threshold, drop.scale, torch::kCPU).equal(mask))
          << width << ", " << threshold;
      EXPECT_TRUE(draw_noise(kStarts, width, 0.3f, torch::kCPU).equal(noise)) << width;
    }
}

TEST(Parcel, BringsTensorsOfAllTypesAndSizes) {
  const std::vector<float> some = {1, 2, 3};
  const std::vector<std::int64_t> others = {-1, 1L << 40};
  torch::Tensor a, b, c;
  Parcel parcel;
  parcel.add<float>(some, {3, 1}, a);
  parcel.add<float>({}, {2, 0}, b);
  parcel.add<std::int64_t>(others, {2}, c);
  parcel.send(torch::kCPU);
  EXPECT_TRUE(a.equal(torch::tensor(some).view({3, 1})));
  EXPECT_EQ(b.sizes(), torch::IntArrayRef({2, 0}));
  EXPECT_TRUE(c.equal(torch::tensor(others)));
}

// Of these LibTorch has shapes in Python alone.
TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("index_select", [](const at::Tensor& x, std::int64_t dim, const at::Tensor& index) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[static_cast<std::size_t>(dim)] = index.numel();
    return at::empty(sizes, x.options());
  });
  library.impl("_fused_adamw_.tensor_lr",
               [](at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                  at::TensorList, const at::Tensor&, double, double, double, double, bool, bool,
                  const std::optional<at::Tensor>&, const std::optional<at::Tensor>&) {});
  library.impl("relu", [](const at::Tensor& x) { return at::empty_like(x); });
}

// A network whose tensors lie on a device from the start: LibTorch moves no module to one without
// numbers.
class NetworkOnADevice : public SequenceModel {
 public:
  NetworkOnADevice(const ModelConfig& config, const torch::Device& device) : config_(config) {
    for (const TensorRow& row : tensors_of(config)) {
      const std::string name =
          row.name.substr(0, row.name.find('.')) + std::to_string(tensors_.size());
      const torch::Tensor value = torch::ones(row.shape, device);
      tensors_[row.name] =
          row.is_buffer ? register_buffer(name, value) : register_parameter(name, value);
    }
  }
  torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                        const Dropout& dropout) override {
    PackedFrames frames(config_, tensors_, features, batch, dropout, covariates, is_training());
    return outputs_of(frames, config_).tensor;
  }
  void set_statistics(const InputStatistics&) override {}
  bool uses_features() const override { return config_.architecture->sees_frames; }

 private:
  ModelConfig config_;
  StateDict tensors_;
};

// LibTorch's device without numbers stands for one: a step that waited for some would fail.
class StepOnADevice : public ::testing::Test {
 protected:
  void SetUp() override {
    dataset_.device = device_;
    dataset_.features = dataset_.features.to(device_);
  }

  void train(const ModelConfig& config, const Dropout& dropout, std::size_t piece = 0) {
    NetworkOnADevice model(config, device_);
    AdamW optimizer({{model}}, 0.1);
    ThreadTeam team;
    for (int step = 0; step < 2; ++step) {
      copies = 0;  // the first step brings what stays
      optimizer.zero_gradients();
      testing::batch_gradients(model, dataset_, items_, objective_, dropout, piece);
      optimizer.clip_gradients(1, team);
      optimizer.step(0.01, team);
    }
  }

  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& call) {
    const auto inputs = call.inputs();
    const auto of = [&](std::size_t i) { return inputs[i].toTensor().device(); };
    copies += std::string_view(call.name()) == "aten::copy_" && of(0).is_meta() && of(1).is_cpu();
    return nullptr;
  }

  inline static int copies = 0;
  const torch::Device device_ = torch::kMeta;
  Dataset dataset_ = testing::noise_dataset({5, 12, 3, 7}, 8);
  const Targets labels_ = testing::classes_of({0, 1, 1, 0});
  const Objective objective_{labels_, {0, 1}, {}};
  const std::vector<BatchItem> items_ = testing::all_frames(dataset_, {0, 1, 2, 3});
};

// Of a transformer's norm LibTorch has no shapes.
TEST_F(StepOnADevice, WaitsForNothing) {
  for (const char* name : {"gru", "bigru", "lstm", "tcn", "attention", "mean", "single", "clock"})
    for (const std::size_t piece : {0u, 3u}) {
      SCOPED_TRACE(name);
      EXPECT_NO_THROW(train(testing::small_config(dataset_, name), Dropout(0.3, 5, 2, 0.5), piece));
    }
}

// Beside it go the starts of random rows, and the quantiles of noise.
TEST_F(StepOnADevice, SendsABatchInOnePiece) {
  const auto counting =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count).needsInputs(true));
  const ModelConfig gru = testing::small_config(dataset_);
  train(gru, Dropout());
  EXPECT_EQ(copies, 1);
  train(gru, Dropout(0.3, 5, 2));
  EXPECT_EQ(copies, 1 + 2);  // behind the projection and before the head
  train(gru, Dropout(0, 5, 2, 0.5));
  EXPECT_EQ(copies, 1 + 2);
  dataset_.features = torch::randn({27, 8});  // which stay in memory
  train(gru, Dropout());
  EXPECT_EQ(copies, 1);
  at::removeCallback(counting);
}

// Random numbers come with the batch.
TEST_F(StepOnADevice, IsOneFunctionOfOneCopy) {
  const auto counting =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count).needsInputs(true));
  for (const bool in_memory : {false, true}) {
    if (in_memory) dataset_.features = torch::randn({27, 8});
    for (const char* name : {"gru", "lstm", "attention", "mean", "single"}) {
      SCOPED_TRACE(name);
      const ModelConfig config = testing::small_config(dataset_, name);
      NetworkOnADevice model(config, device_);
      AdamW optimizer({{model}}, 0.1);
      RecordedStep step({model, config, dataset_, objective_, optimizer, 8, 12, 1}, {});
      for (int i = 0; i < 3; ++i) {
        copies = 0;
        step.compute(items_, Dropout(0.3, 5, 2, 0.5), 0.01);
      }
      EXPECT_EQ(copies, 1);
    }
  }
  at::removeCallback(counting);
}

// In double, which our kernels do not take, as on a device.
TEST(Optimizer, TakesTheSameStepsByOperations) {
  torch::manual_seed(1);
  torch::nn::Linear kernels(30, 40), operations(30, 40);
  operations->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < 2; ++i) operations->parameters()[i].copy_(kernels->parameters()[i]);
  ThreadTeam team;
  AdamW one({{*kernels}}, 0.1), other({{*operations}}, 0.1);
  for (int step = 0; step < 5; ++step) {
    const torch::Tensor gradients = torch::randn_like(one.gradients());
    one.gradients().copy_(gradients);
    other.gradients().copy_(gradients);
    for (AdamW* const optimizer : {&one, &other}) {
      optimizer->clip_gradients(step % 2 == 0 ? 1 : 0, team);
      EXPECT_NEAR(optimizer->gradient_norm(), gradients.norm().item<double>(), 1e-4);
      optimizer->step(0.01, team);
    }
  }
  EXPECT_TRUE(torch::allclose(one.parameters(), other.parameters().to(torch::kFloat), 0, 1e-6));
}

}  // namespace
}  // namespace coldframe::temporal
