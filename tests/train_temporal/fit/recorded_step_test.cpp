// A recorded step against the step that autograd takes, and its replays against computing it: on
// the CPU, by a graph that keeps LibTorch's operations as a GPU keeps kernels.
#include "train_temporal/fit/step.h"

#include <c10/core/StreamGuard.h>
#include <torch/library.h>

#include <ostream>
#include <set>
#include <thread>
#include <unordered_map>

#include "common/torch/device.h"
#include "tests/support/gpu_test.h"
#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

// Operations with the tensors that they were given. What one of them made is made anew in each
// replay; all other memory is what it was, and numbers from outside of it are baked in.
class OperationGraph final : public Graph {
 public:
  void capture(const std::function<void()>& work) override {
    current_ = this;
    const c10::impl::IncludeDispatchKeyGuard keep(c10::DispatchKey::Fake);
    work();
    current_ = nullptr;
  }
  // What was computed while it was recorded stands for the first replay.
  void replay() override {
    if (std::exchange(computed_, false)) return;
    const at::AutoDispatchBelowADInplaceOrView as_recorded;
    Made made;
    for (const Call& call : calls_) {
      torch::jit::Stack stack;
      for (const c10::IValue& value : call.inputs) stack.push_back(with(made, value));
      call.operation.callBoxed(stack);
      for (std::size_t i = 0; i < stack.size(); ++i) remember(made, call.outputs[i], stack[i]);
    }
  }
  std::uint64_t bytes() const override { return 0; }

  static void keep(const c10::OperatorHandle& operation, c10::DispatchKeySet,
                   torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard no_more(c10::DispatchKey::Fake);
    const std::size_t arguments = operation.schema().arguments().size();
    std::vector<c10::IValue> inputs(stack->end() - static_cast<std::ptrdiff_t>(arguments),
                                    stack->end());
    operation.callBoxed(stack);
    const std::size_t results = operation.schema().returns().size();
    std::vector<c10::IValue> outputs(stack->end() - static_cast<std::ptrdiff_t>(results),
                                     stack->end());
    if (current_ != nullptr) current_->calls_.push_back({operation, inputs, outputs});
  }

 private:
  using Made = std::unordered_map<const c10::StorageImpl*, c10::Storage>;  // by what was recorded
  struct Call {
    c10::OperatorHandle operation;
    std::vector<c10::IValue> inputs, outputs;
  };

  static torch::Tensor with(const Made& made, const torch::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const auto found = made.find(tensor.storage().unsafeGetStorageImpl());
    if (found == made.end()) return tensor;
    return torch::empty({0}, tensor.options())
        .set_(found->second, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }
  static c10::IValue with(const Made& made, const c10::IValue& value) {
    if (value.isTensor()) return with(made, value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<torch::Tensor> list;
    for (const torch::Tensor& tensor : value.toTensorVector()) list.push_back(with(made, tensor));
    return list;
  }
  static void remember(Made& made, const torch::Tensor& recorded, const torch::Tensor& now) {
    if (recorded.defined()) made[recorded.storage().unsafeGetStorageImpl()] = now.storage();
  }
  static void remember(Made& made, const c10::IValue& recorded, const c10::IValue& now) {
    if (recorded.isTensor()) remember(made, recorded.toTensor(), now.toTensor());
    if (!recorded.isTensorList()) return;
    const auto before = recorded.toTensorVector(), after = now.toTensorVector();
    for (std::size_t i = 0; i < before.size(); ++i) remember(made, before[i], after[i]);
  }

  inline static OperationGraph* current_ = nullptr;
  std::vector<Call> calls_;
  bool computed_ = true;
};

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&OperationGraph::keep>());
}

struct Model {
  const char* name;
  std::int64_t layers = 1;
  TemporalPool pool = TemporalPool::kAttention;
  TimeEncoding encoding = TimeEncoding::kLog;
  Inputs inputs = Inputs::kLevel;
};
std::ostream& operator<<(std::ostream& out, const Model& model) {
  return out << model.name << ' ' << model.layers << ' ' << int(model.pool) << ' '
             << int(model.encoding) << ' ' << int(model.inputs);
}
constexpr Model kModels[] = {
    {"gru"},
    {"gru", 2, TemporalPool::kLast},
    {"gru", 1, TemporalPool::kMean, TimeEncoding::kTime2Vec},
    {"gru", 1, TemporalPool::kAttention, TimeEncoding::kDecay},
    {"gru", 1, TemporalPool::kAttention, TimeEncoding::kLog, Inputs::kBoth},
    {"lstm", 2},
    {"mean"},
    {"attention"},
    {"single"}};

class RecordedSteps : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  // A model that is trained by one way or the other.
  struct Fit {
    Fit(const Dataset& dataset, const ModelConfig& config)
        : model(make_model(config, 3)), optimizer({{*model}}, 0.1) {
      const torch::NoGradGuard no_grad;
      model->set_statistics(input_statistics(dataset, {0, 1, 2, 3}, config.inputs));
    }
    std::shared_ptr<SequenceModel> model;
    AdamW optimizer;
  };

  ModelConfig config_of(const Dataset& dataset) const {
    ModelConfig config = testing::small_config(dataset, GetParam().name);
    config.outputs = 3;
    config.layers = GetParam().layers;
    config.pool = GetParam().pool;
    config.time_encoding = GetParam().encoding;
    config.time = config.architecture->ordered;
    config.inputs = GetParam().inputs;
    config.dimension *= parts_of(config.inputs);
    --config.clock_width;
    return config;
  }
  RecordedStep recorded(Fit& fit, const Dataset& dataset, const ModelConfig& config,
                        MakeGraph make = {}) const {
    return RecordedStep(
        {*fit.model, config, dataset, objective_, fit.optimizer, kBatch, 8, /*clip=*/0.5},
        std::move(make));
  }
  // As Trainer takes a step that is not recorded, on a device.
  void step(Fit& fit, const Dataset& dataset, const std::vector<BatchItem>& items,
            const Dropout& dropout, double rate, LossSum& sum) const {
    fit.optimizer.zero_gradients();
    sum += testing::batch_gradients(*fit.model, dataset, items, objective_, dropout, 0);
    fit.optimizer.step_by_operations(torch::scalar_tensor(rate), 0.5);
  }

  static constexpr std::size_t kBatch = 4;
  const Targets labels_ = testing::classes_of({0, 1, 2, 0, 1, 2, 1, 0, 0, 1});
  const Objective objective_{labels_, {0, 1, 2, 3, 4}, {{}, 0, /*class_weights=*/true}};
};

// Lengths are 8 alone: nothing is padded.
TEST_P(RecordedSteps, AreThoseOfAutogradToTheByte) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(10, 8), 12);
  const ModelConfig config = config_of(dataset);
  ASSERT_TRUE(RecordedStep::can_record(config, objective_));
  Fit plain(dataset, config), function(dataset, config);
  RecordedStep recorded = this->recorded(function, dataset, config);
  const std::vector<std::vector<std::size_t>> batches = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 2, 9, 0}};
  LossSum losses, others;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Dropout dropout(0.3, 5, i, 0.5, config.clean_inputs());
    const auto items = testing::all_frames(dataset, batches[i]);
    const double rate = 0.01 / double(i + 1);
    step(plain, dataset, items, dropout, rate, losses);
    others += recorded.compute(items, dropout, rate);
    ASSERT_TRUE(function.optimizer.parameters().equal(plain.optimizer.parameters())) << i;
    EXPECT_TRUE(function.optimizer.gradients().equal(plain.optimizer.gradients())) << i;
  }
  others += recorded.take_losses();
  EXPECT_EQ(others.mean(), losses.mean());
  EXPECT_EQ(recorded.take_losses().on_device.item<double>(), 0);
  EXPECT_EQ(function.optimizer.steps(), 3);
}

// Padding and exams that fill a batch up change no more than rounding does.
TEST_P(RecordedSteps, SeeNoPadding) {
  const Dataset dataset = testing::noise_dataset({5, 8, 3, 7, 8, 6, 1, 4, 2, 7}, 12);
  const ModelConfig config = config_of(dataset);
  Fit plain(dataset, config), function(dataset, config);
  RecordedStep recorded = this->recorded(function, dataset, config);
  const std::vector<std::vector<std::size_t>> batches = {
      {0, 1, 2, 3}, {4, 5, 6}, {6, 8, 2, 7}, {9, 1}, {6}};
  LossSum losses, others;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Dropout dropout(0.3, 5, i, 0.5, config.clean_inputs());
    auto items = testing::all_frames(dataset, batches[i]);
    if (is_one_frame(config.order))
      for (BatchItem& item : items)
        for (auto* frames : {&item.frames.features, &item.frames.times}) frames->resize(1);
    step(plain, dataset, items, dropout, 0.01, losses);
    others += recorded.compute(items, dropout, 0.01);
    EXPECT_TRUE(
        torch::allclose(function.optimizer.gradients(), plain.optimizer.gradients(), 1e-4, 1e-6))
        << i;
  }
  others += recorded.take_losses();
  EXPECT_NEAR(others.mean(), losses.mean(), 1e-6);
}

// Each length is recorded at its second batch: what is replayed must not hold a number of that one.
TEST_P(RecordedSteps, AreReplayedWithWhateverBatch) {
  Dataset dataset = testing::noise_dataset({5, 8, 3, 7, 8, 6, 1, 4, 2, 7}, 12);
  const ModelConfig config = config_of(dataset);
  Fit computed(dataset, config), replayed(dataset, config);
  RecordedStep one = recorded(computed, dataset, config);
  RecordedStep other =
      recorded(replayed, dataset, config, [] { return std::make_unique<OperationGraph>(); });
  const std::vector<std::vector<std::size_t>> batches = {
      {0, 1, 2, 3}, {2, 8, 6}, {4, 5, 6}, {6, 2}, {9, 1, 7, 5}, {8, 6, 2}, {3}, {1, 4, 0, 9}};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Dropout dropout(0.3, 5, i, 0.5, config.clean_inputs());
    const auto items = testing::all_frames(dataset, batches[i]);
    const double rate = 0.01 / double(i + 1);
    one.compute(items, dropout, rate);
    other.compute(items, dropout, rate);
    ASSERT_TRUE(replayed.optimizer.parameters().equal(computed.optimizer.parameters())) << i;
  }
  EXPECT_TRUE(one.take_losses().on_device.equal(other.take_losses().on_device));
}

INSTANTIATE_TEST_SUITE_P(, RecordedSteps, ::testing::ValuesIn(kModels));

class RecordedStepOnGpu : public coldframe::testing::GpuTest {
 protected:
  // Parameters after some steps, whose batches have two lengths.
  torch::Tensor train(const std::string& name, const torch::Device& device, MakeGraph make) const {
    Dataset dataset = testing::noise_dataset({5, 8, 3, 7, 8, 6, 1, 4, 2, 7}, 12);
    dataset.device = device;
    dataset.features = dataset.features.to(device);
    const ModelConfig config = testing::small_config(dataset, name);
    const OwnStream stream(device);
    const c10::StreamGuard guard(stream.get());
    const auto model = make_model(config, 3);
    model->to(device);
    AdamW optimizer({{*model}}, 0.1);
    const Targets labels = testing::classes_of({0, 1, 1, 0, 1, 0, 1, 0, 0, 1});
    const Objective objective(labels, {0, 1, 2, 3, 4}, {});
    RecordedStep step({*model, config, dataset, objective, optimizer, 4, 8, 1}, std::move(make));
    const std::vector<std::vector<std::size_t>> batches = {{0, 1, 2, 3}, {2, 8, 6}, {9, 1, 7, 5}};
    for (std::size_t i = 0; i < 12; ++i)
      step.compute(testing::all_frames(dataset, batches[i % 3]), Dropout(0.3, 5, i, 0.5), 1e-3);
    return optimizer.parameters().cpu();
  }
};

TEST_F(RecordedStepOnGpu, ReplaysWhatItComputes) {
  for (const char* name : {"gru", "lstm", "attention", "mean"}) {
    const torch::Tensor computed = train(name, device_, {});
    EXPECT_TRUE(train(name, device_, cuda_graphs()).allclose(computed, 0, 1e-6)) << name;
    EXPECT_TRUE(train(name, torch::kCPU, {}).allclose(computed, 0, 1e-3)) << name;
  }
}

TEST_F(RecordedStepOnGpu, IsNotMixedUpWithAnother) {
  const torch::Tensor alone = train("gru", device_, cuda_graphs());
  std::vector<torch::Tensor> beside(4);
  std::vector<std::jthread> threads;
  for (torch::Tensor& each : beside)
    threads.emplace_back([&] { each = train("gru", device_, cuda_graphs()); });
  threads.clear();  // joins
  for (const torch::Tensor& each : beside) EXPECT_TRUE(each.allclose(alone, 0, 1e-6));
}

// What a GPU does in a whole fit, on the CPU: the best epoch and its figures are those of a fit
// whose steps are not recorded, but for rounding.
TEST(RecordedFits, AreThoseThatAreNot) {
  const Dataset dataset =
      testing::noise_dataset({5, 8, 3, 7, 8, 6, 1, 4, 2, 7, 5, 3, 6, 8, 2, 4, 7, 9}, 12);
  const Targets labels =
      testing::classes_of({0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0});
  const Split split = testing::thirds(18);
  FitOptions options;
  options.epochs = 5;
  options.batch = 4;
  options.train_frames = 6;
  for (const char* name : {"gru", "lstm", "attention"}) {
    const ModelConfig config = testing::small_config(dataset, name);
    const auto fit = [&](bool recorded) {
      options.recorded = recorded;
      return FitTask{dataset, labels, split, config, options, 1};
    };
    ASSERT_TRUE(records_steps(fit(true)));
    ASSERT_FALSE(records_steps(fit(false)));
    const FitRecord plain = testing::run_to_end(fit(false)), other = testing::run_to_end(fit(true));
    ASSERT_EQ(other.history.size(), plain.history.size());
    bool differs = false;
    for (std::size_t epoch = 0; epoch < plain.history.size(); ++epoch) {
      EXPECT_NEAR(other.history[epoch].train, plain.history[epoch].train, 1e-4) << name;
      EXPECT_NEAR(other.history[epoch].validation, plain.history[epoch].validation, 1e-4) << name;
      differs |= other.history[epoch].train != plain.history[epoch].train;
    }
    EXPECT_TRUE(differs) << name << ": rounding tells that steps went the other way";
  }
}

// As any fit: state after two epochs, and the rest from there.
TEST(RecordedFits, GoOnWhereTheyWere) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(12, 6), 12);
  const Targets labels = testing::classes_of({0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1});
  const Split split = testing::thirds(12);
  FitOptions options;
  options.epochs = 4;
  options.batch = 2;
  options.recorded = true;
  const FitTask task{dataset, labels, split, testing::small_config(dataset), options, 1};
  Trainer whole(task), first(task), second(task);
  for (int epoch = 0; epoch < 2; ++epoch) first.run_epoch();
  second.restore(first.state());
  while (!second.finished()) second.run_epoch();
  while (!whole.finished()) whole.run_epoch();
  EXPECT_TRUE(second.state().parameters.equal(whole.state().parameters));
  FitState halved = first.state();
  halved.micro_batches.training = 1;  // as after running out of memory, from where none is recorded
  second.restore(halved);
  EXPECT_NO_THROW(second.run_epoch());
}

TEST(RecordedStep, TakesWhatReadsForwards) {
  const Dataset dataset = testing::noise_dataset({5, 8}, 12);
  const Targets labels = testing::classes_of({0, 1});
  const Objective plain(labels, {0, 1}, {}), smoothed(labels, {0, 1}, {{}, 0.1});
  for (const char* name : {"bigru", "tcn", "transformer", "clock"})
    EXPECT_FALSE(RecordedStep::can_record(testing::small_config(dataset, name), plain)) << name;
  ModelConfig config = testing::small_config(dataset);
  EXPECT_TRUE(RecordedStep::can_record(config, plain));
  EXPECT_FALSE(RecordedStep::can_record(config, smoothed));
  config.covariates = 2;
  EXPECT_FALSE(RecordedStep::can_record(config, plain));
}

TEST(RecordedStep, PadsToFewLengths) {
  std::set<std::size_t> lengths;
  for (std::size_t frames = 1; frames <= 60; ++frames) {
    const std::size_t rows = padded_rows(frames, 60);
    EXPECT_GE(rows, frames);
    EXPECT_LE(rows, std::max<std::size_t>(2 * frames - 1, 1));
    lengths.insert(rows);
  }
  EXPECT_EQ(lengths, (std::set<std::size_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60}));
}

}  // namespace
}  // namespace coldframe::temporal
