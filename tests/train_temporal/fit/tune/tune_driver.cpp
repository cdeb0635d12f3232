// Runs the end of a ViT with a temporal model for the Python cross-checks.
//   tune_driver step SETTINGS.json : one step's loss, features and gradients -> safetensors
//   tune_driver merge SETTINGS.json: the whole ViT after a step of plain descent -> safetensors
// The settings name the recipe, weights, rows [n, …] as the cut stores them, exams of equal length,
// their labels, and what is tuned.

#include <ATen/ops/cross_entropy_loss.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/torch/memory.h"
#include "tests/support/driver.h"
#include "train_temporal/fit/tune/tuned_vit.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::tune {
namespace {

torch::Tensor read_rows(const Json& settings) {
  const auto tensors = read_safetensors(settings.at("rows").get<std::string>()).tensors;
  return tensors.at("rows");
}

// Exams of `frames` frames a second apart.
temporal::Dataset dataset_of(std::int64_t exams, std::int64_t frames) {
  temporal::Dataset dataset;
  for (std::int64_t exam = 0; exam < exams; ++exam) {
    temporal::Sequence& sequence = dataset.sequences.emplace_back();
    sequence.first_row = exam * frames;
    for (std::int64_t t = 0; t < frames; ++t) sequence.time_s.push_back(static_cast<double>(t));
  }
  return dataset;
}

// The GRU, its loss, and what they give for features [exams · frames, D].
class Head {
 public:
  Head(const Json& settings, std::int64_t dimension)
      : labels_(torch::tensor(settings.at("labels").get<std::vector<std::int64_t>>())) {
    const std::int64_t exams = labels_.size(0);
    const auto frames = settings.at("frames").get<std::int64_t>();
    dataset_ = dataset_of(exams, frames);
    std::vector<temporal::BatchItem> items;
    for (std::int64_t exam = 0; exam < exams; ++exam) {
      temporal::BatchItem& item = items.emplace_back();
      item.exam = static_cast<std::size_t>(exam);
      for (std::int64_t t = 0; t < frames; ++t) item.frames.features.push_back(t);
      item.frames.times = item.frames.features;
    }
    batch_ = temporal::make_batch(dataset_, items);
    temporal::ModelConfig config;
    config.dimension = dimension;
    config.hidden = 16;
    config.dropout = 0;
    config.pool = temporal::TemporalPool::kLast;
    model_ = temporal::make_model(config, 4);
  }

  // Returns the gradient of the loss by the features, and leaves those of the model.
  torch::Tensor operator()(const torch::Tensor& features) {
    const torch::AutoGradMode with_graph(true);
    torch::Tensor leaf = features.detach().clone().set_requires_grad(true);
    const torch::Tensor outputs =
        model_->forward(leaf.index_select(0, torch::tensor(batch_.frame_rows, torch::kInt64)),
                        batch_, temporal::Dropout());
    loss = at::cross_entropy_loss(outputs, labels_);
    loss.backward();
    return leaf.grad();
  }

  temporal::SequenceModel& model() { return *model_; }
  torch::Tensor loss;

 private:
  torch::Tensor labels_;
  temporal::Dataset dataset_;
  temporal::PackedBatch batch_;
  std::shared_ptr<temporal::SequenceModel> model_;
};

TuneOptions options_of(const Json& settings) {
  TuneOptions options;
  options.blocks = settings.at("blocks").get<std::int64_t>();
  options.lora_rank = settings.value("lora", std::int64_t{0});
  options.lora_alpha = settings.value("alpha", 16.0);
  options.chunk = settings.value("chunk", std::int64_t{0});
  options.budget = settings.value("budget", std::uint64_t{0});
  if (settings.contains("strategy"))
    options.strategy = choice("strategy", settings["strategy"].get<std::string>(), kStrategies);
  if (settings.value("precision", "fp32") == "bf16") options.precision = torch::kBFloat16;
  return options;
}

// With B at 0, as it starts, A would get no gradient.
void start_matrices(torch::nn::Module& trainable) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : trainable.named_parameters()) {
    torch::Tensor& value = parameter.value();
    if (parameter.key().ends_with("lora_up"))
      value.copy_(0.1 * torch::sin(torch::arange(value.numel()).view(value.sizes())));
  }
}

int step(const Json& settings, bool merge) {
  const torch::Tensor rows = read_rows(settings);
  const TunedSource source(read_json_file(settings.at("recipe").get<std::string>()),
                           settings.at("cut").get<std::int64_t>(), settings.value("weights", ""));
  const TuneOptions options = options_of(settings);
  TunedVit vit(source, options, 7, torch::kCPU);
  Head head(settings, vit.dimension());
  const std::vector<std::uint64_t> keys(static_cast<std::size_t>(rows.size(0)), 0);
  for (torch::Tensor& parameter : vit.trainable().parameters())
    parameter.mutable_grad() = torch::zeros_like(parameter);
  if (options.lora_rank > 0) start_matrices(vit.trainable());
  StateDict result;
  const std::uint64_t before = cpu_memory().live;
  reset_cpu_memory_peak();
  vit.step(rows, keys, {}, [&](const torch::Tensor& features) {
    if (features.numel() < 1 << 24) result["features"] = features.clone();
    return head(features);
  });
  const std::uint64_t total = cpu_memory().peak, peak = total - before;
  result["loss"] = head.loss.detach();
  const auto add = [&](const std::string& prefix, const torch::nn::Module& module) {
    for (const auto& parameter : module.named_parameters()) {
      result[prefix + "weight:" + parameter.key()] = parameter.value().detach().clone();
      result[prefix + "gradient:" + parameter.key()] = parameter.value().grad();
    }
  };
  add("vit:", vit.trainable());
  add("head:", head.model());
  if (merge) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : vit.trainable().parameters())
      parameter.sub_(parameter.grad(), settings.value("rate", 1.0));
    result = vit.merged();
  }
  write_safetensors(settings.at("output").get<std::string>(), result, {});
  std::cout << Json{{"peak", peak},
                    {"total", total},
                    {"predicted", vit.predicted_bytes(rows.size(0))}}
                   .dump()
            << '\n';
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || (arguments[0] != "step" && arguments[0] != "merge"))
    throw ConfigError("usage: tune_driver step|merge SETTINGS.json");
  count_cpu_memory();
  return step(read_json_file(arguments[1]), arguments[0] == "merge");
}

const testing::Driver kTuneDriver{"tune_driver", run};

}  // namespace
}  // namespace coldframe::tune
