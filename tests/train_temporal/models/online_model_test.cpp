// Frame by frame a model says of every prefix what it says of the prefix as a whole sequence.
#include "train_temporal/models/online_model.h"

#include "common/cli/error.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/models/summary/summary_model.h"

namespace coldframe::temporal {
namespace {

struct OnlineVariant {
  const char* name;
  const char* model;
  std::int64_t layers;
  TemporalPool pool;
  bool time;
  TimeEncoding encoding = TimeEncoding::kLog;
  FrameOrder order = FrameOrder::kInOrder;
};

class EveryOnlineModel : public ::testing::TestWithParam<OnlineVariant> {};

INSTANTIATE_TEST_SUITE_P(
    Model, EveryOnlineModel,
    ::testing::Values(
        OnlineVariant{"gru_last", "gru", 1, TemporalPool::kLast, false},
        OnlineVariant{"gru_mean_time", "gru", 1, TemporalPool::kMean, true},
        OnlineVariant{"gru_attention_deep", "gru", 3, TemporalPool::kAttention, true},
        OnlineVariant{"gru_per_frame", "gru", 2, TemporalPool::kNone, true},
        OnlineVariant{"gru_decay", "gru", 2, TemporalPool::kAttention, true, TimeEncoding::kDecay},
        OnlineVariant{"gru_time2vec", "gru", 1, TemporalPool::kLast, true, TimeEncoding::kTime2Vec},
        OnlineVariant{"lstm_attention", "lstm", 2, TemporalPool::kAttention, true},
        OnlineVariant{"lstm_last", "lstm", 1, TemporalPool::kLast, false},
        OnlineVariant{"tcn_attention", "tcn", 3, TemporalPool::kAttention, false},
        OnlineVariant{"tcn_last_time", "tcn", 2, TemporalPool::kLast, true},
        OnlineVariant{"tcn_per_frame", "tcn", 4, TemporalPool::kNone, true,
                      TimeEncoding::kTime2Vec},
        OnlineVariant{"blank", "blank", 1, TemporalPool::kAttention, true},
        OnlineVariant{"mean", "mean", 1, TemporalPool::kAttention, false},
        OnlineVariant{"attention", "attention", 1, TemporalPool::kAttention, false},
        OnlineVariant{"single_per_frame", "single", 1, TemporalPool::kNone, false},
        OnlineVariant{"single_first", "single", 1, TemporalPool::kAttention, false,
                      TimeEncoding::kLog, FrameOrder::kFirst},
        OnlineVariant{"single_last", "single", 1, TemporalPool::kAttention, false,
                      TimeEncoding::kLog, FrameOrder::kLast}),
    [](const auto& variant) { return variant.param.name; });

// Thirty frames; some times are unknown.
Dataset sequence() {
  Dataset dataset = testing::noise_dataset({30}, 8);
  for (const std::size_t frame : {4u, 9u, 10u}) {
    dataset.sequences[0].time_s[frame] = std::numeric_limits<double>::quiet_NaN();
  }
  return dataset;
}

std::vector<double> whole(SequenceModel& model, const ModelConfig& config, Dataset dataset,
                          std::int64_t frames) {
  dataset.sequences[0].time_s.resize(static_cast<std::size_t>(frames));
  dataset.features = dataset.features.narrow(0, 0, frames);
  ThreadTeam team;
  std::vector<double> outputs = predict_logits(model, {dataset, config, 0, 1}, {0}, team);
  return {outputs.end() - config.outputs, outputs.end()};  // per frame: those of the last
}

// The widest difference between what is said frame by frame and of the whole sequence, of all
// prefixes, twice.
double widest_difference(SequenceModel& model, const ModelConfig& config, const Dataset& dataset) {
  OnlineModel online(model, config);
  double widest = 0;
  for (int round = 0; round < 2; ++round, online.restart()) {
    for (std::int64_t t = 0; t < 30; ++t) {
      const auto found = online.step(dataset.features[t],
                                     dataset.sequences[0].time_s[static_cast<std::size_t>(t)]);
      const auto expected = whole(model, config, dataset, t + 1);
      EXPECT_EQ(found.size(), expected.size());
      for (std::size_t c = 0; c < expected.size(); ++c)
        widest = std::max(widest, std::abs(found.at(c) - expected[c]));
    }
  }
  return widest;
}

TEST_P(EveryOnlineModel, EqualsTheWholeSequenceAtEveryPrefix) {
  const OnlineVariant& variant = GetParam();
  const Dataset dataset = sequence();
  ModelConfig config = testing::small_config(dataset);
  config.layers = variant.layers;
  config.pool = variant.pool;
  config.time = variant.time;
  config.time_encoding = variant.encoding;
  set_model(config, variant.model);
  if (is_one_frame(config.order)) config.order = variant.order;
  const auto model = make_model(config, 3);
  {
    const torch::NoGradGuard no_grad;
    model->set_statistics(input_statistics(dataset, {0}));
  }
  EXPECT_LT(widest_difference(*model, config, dataset), 1e-6);
}

// An output of each family, of slopes per frame and per second.
TEST(OnlineModel, EqualsSummariesOfTheWholeSequenceAtEveryPrefix) {
  const Dataset dataset = sequence();
  ModelConfig config = testing::small_config(dataset, "summary");
  config.outputs = kFamilies;
  const auto model = std::dynamic_pointer_cast<SummaryModel>(make_model(config, 3));
  const torch::NoGradGuard no_grad;
  model->family.copy_(torch::arange(kFamilies));
  for (const double per_second : {0.0, 1.0}) {
    model->per_second.fill_(per_second);
    EXPECT_LT(widest_difference(*model, config, dataset), 1e-6) << per_second;
  }
}

TEST(OnlineModel, RefusesModelsThatNeedTheWholeSequenceByName) {
  const Dataset dataset = sequence();
  for (const char* name : {"bigru", "transformer", "shuffled", "single", "clock"}) {
    const ModelConfig config = testing::small_config(dataset, name);
    const auto model = make_model(config, 3);
    try {
      OnlineModel(*model, config);
      ADD_FAILURE() << name << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("'") + name + "'"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace coldframe::temporal
