// Gradients of the end of a ViT, whatever goes about its memory, are those of one graph.
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "tests/train_temporal/fit/tune/tuned_models.h"
#include "train_temporal/fit/tune/chunk_run.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/plan/plan.h"

namespace coldframe::tune::testing {
namespace {

struct Case {
  std::string name;
  vit::Architecture architecture;
  std::int64_t cut, blocks;
  vit::FeatureOptions features{};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, std::int64_t cut, std::int64_t blocks,
                       const vit::FeatureOptions& features, const auto& set) {
    vit::Architecture architecture = vit::small_architecture(64, 2, 4, 4);
    architecture.depth = 4;
    architecture.mlp_hidden = 130;
    set(architecture);
    all.push_back({name, architecture, cut, blocks, features});
  };
  const auto plain = [](auto&) {};
  const vit::FeatureOptions cls, mean{vit::Pooling::kMean}, map{vit::Pooling::kMap};
  add("last_two", 2, 2, cls, plain);
  add("last_of_a_longer_cut", 1, 1, mean, plain);
  add("whole", 0, 4, cls, plain);
  add("last_two_of_pixels", 0, 2, cls, plain);
  add("layers", 1, 3, {vit::Pooling::kClsMean, {2, 4}}, plain);
  add("layers_before_the_trained", 1, 1, {vit::Pooling::kCls, {1, 2, 4}}, plain);
  add("layers_short_of_the_last", 1, 3, {vit::Pooling::kMean, {2, 3}}, plain);
  add("registers_and_layer_scale", 0, 4, mean, [](auto& a) { a = vit::with_registers(a); });
  add("siglip", 0, 4, map, [](auto& a) { vit::like_siglip(a); });
  add("post_norm", 0, 4, cls, [](auto& a) { a.block = vit::BlockKind::kPostNorm; });
  add("differential", 0, 4, mean, [](auto& a) { a.differential = a.qk_norm = true; });
  add("parallel_things", 0, 4, cls, [](auto& a) {
    a.block = vit::BlockKind::kParallelThings;
    a.parallel = 2;
  });
  add("parallel_scaling", 0, 4, cls, [](auto& a) { a.block = vit::BlockKind::kParallelScaling; });
  for (const vit::Switch& one : vit::switches()) add(one.name, 0, 4, mean, one.set);
  return all;
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Strategies : public QuietTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Strategies, GradientsAreThoseOfOneGraph) {
  const Case& c = GetParam();
  const TunedSource source(recipe_of(c.architecture, 16, c.features), c.cut, "");
  const torch::Tensor rows = rows_of(source);
  for (const double probability : {0.0, 0.3}) {
    const temporal::Dropout dropout(probability, 5, 2);
    TunedVit vit(source, {.blocks = c.blocks, .strategy = Strategy::kNone}, 1, torch::kCPU);
    const Step none = step_of(vit, rows, dropout);
    // Frozen blocks have no dropout; the one graph has it everywhere.
    if (probability == 0 || c.cut + c.blocks == c.architecture.depth)
      expect_same(none, whole_step(source, names_of(vit.trainable()), rows, dropout), 1e-5);
    TunedVit cheap(source, {.blocks = c.blocks}, 1, torch::kCPU);
    expect_same(step_of(cheap, rows, dropout), none, 0);
    for (const std::int64_t chunk : {1, 2}) {
      TunedVit other(source, {.blocks = c.blocks, .chunk = chunk}, 1, torch::kCPU);
      expect_same(step_of(other, rows, dropout), none, 1e-5);
    }
  }
}

// All frames through the trained steps, whose graphs keep so much; each step but the last runs
// twice, or none does.
StateDict gradients_of(const Chain& chain, const Values& input, const Pass& pass,
                       torch::nn::Module& trainable, Keep keep, bool twice) {
  const std::size_t steps = chain.size() - chain.first_trained();
  Schedule schedule;
  for (std::size_t i = 0; i < steps; ++i)
    schedule.push_back(
        {twice && i + 1 < steps ? Action::kForwardKeepInput : Action::kForwardWithGraph, i, keep});
  for (std::size_t i = steps; i-- > 0;) {
    if (twice && i + 1 < steps) schedule.push_back({Action::kForwardWithGraph, i, keep});
    schedule.push_back({Action::kBackward, i, keep});
  }
  ChunkRun run(chain, steps, schedule, input, pass);
  const torch::Tensor features = run.forward()[0].clone();
  run.backward({loss_gradient(features)});
  StateDict found{{"features", features}};
  for (auto& parameter : trainable.named_parameters()) {
    found[parameter.key()] = parameter.value().grad();
    parameter.value().mutable_grad().reset();
  }
  return found;
}

// What is computed again has the same bits, and so have gradients: whatever is trained, with and
// without dropout, in both precisions, and when steps run twice.
TEST_P(Strategies, GraphsThatKeepLessGiveTheSameBits) {
  const Case& c = GetParam();
  const TunedSource source(recipe_of(c.architecture, 16, c.features), c.cut, "");
  const torch::Tensor rows = rows_of(source);
  const auto keys = keys_of(kFrames);
  for (const std::int64_t rank : {0, 2}) {
    const vit::VisionTransformer model =
        make_tuned_model(source, {.blocks = c.blocks, .lora_rank = rank}, 1, torch::kCPU);
    const auto trainable = trained_parameters(model);
    const Chain chain(model, source.features(), source.cut(), source.levels(), 0.2);
    Values input{source.cut() == 0
                     ? rows
                     : rows.to(torch::kFloat32).view({kFrames, -1, c.architecture.width})};
    for (std::size_t step = 0; step < chain.first_trained(); ++step) {
      const torch::NoGradGuard no_grad;
      input = chain.forward(step, input, {});
    }
    for (const auto& [probability, type] :
         {std::pair{0.0, torch::kFloat32}, std::pair{0.3, torch::kBFloat16}}) {
      const temporal::Dropout dropout(probability, 5, 2);
      const Pass pass{&dropout, keys, type};
      const StateDict whole = gradients_of(chain, input, pass, *trainable, Keep::kWhole, false);
      for (const auto& [keep, twice] :
           {std::pair{Keep::kWhole, true}, std::pair{Keep::kCheap, false},
            std::pair{Keep::kLean, true}}) {
        const StateDict found = gradients_of(chain, input, pass, *trainable, keep, twice);
        for (const auto& [name, value] : whole)
          EXPECT_TRUE(torch::equal(found.at(name), value))
              << word_for(kKeepWords, keep) << " " << name;
      }
    }
  }
}

TEST_P(Strategies, TrainedValuesAreThoseOfTheModelAndOfThePlan) {
  const Case& c = GetParam();
  const TunedSource source(recipe_of(c.architecture, 16, c.features), c.cut, "");
  for (const std::int64_t rank : {0, 2}) {
    const TuneOptions options{.blocks = c.blocks, .lora_rank = rank};
    TunedVit vit(source, options, 1, torch::kCPU);
    std::int64_t values = 0;
    for (const torch::Tensor& parameter : vit.trainable().parameters()) values += parameter.numel();
    EXPECT_EQ(trained_values(source, options), values) << rank;
    EXPECT_EQ(plan::count_parameters(trained_shape(source, options)).trained, values) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(, Strategies, ::testing::ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

class TunedVitTest : public QuietTest {
 protected:
  static vit::Architecture architecture() {
    vit::Architecture shape = vit::small_architecture(64, 2, 4, 4);
    shape.depth = 4;
    return shape;
  }
  TunedSource source{recipe_of(architecture(), 16, {}), 2, ""};
  torch::Tensor rows = rows_of(source);
};

TEST_F(TunedVitTest, FeaturesAreThoseOfTheStep) {
  TunedVit vit(source, {.blocks = 2}, 1, torch::kCPU);
  const Step step = step_of(vit, rows);
  EXPECT_TRUE(torch::equal(vit.features(rows), step.features));
  EXPECT_TRUE(torch::equal(vit.features(rows.flatten(1)), step.features));
  EXPECT_EQ(vit.dimension(), step.features.size(1));
}

TEST_F(TunedVitTest, NothingIsTrainedOfNoBlocks) {
  TunedVit frozen(source, {}, 1, torch::kCPU), tuned(source, {.blocks = 2}, 1, torch::kCPU);
  EXPECT_TRUE(frozen.trainable().parameters().empty());
  EXPECT_TRUE(torch::equal(frozen.features(rows), tuned.features(rows)));
  EXPECT_EQ(step_of(frozen, rows).gradients.size(), 0u);
}

TEST_F(TunedVitTest, LowRankMatricesStartWhereTheModelIs) {
  const TuneOptions options{.blocks = 2, .lora_rank = 3, .lora_alpha = 6};
  TunedVit vit(source, options, 1, torch::kCPU), same(source, options, 1, torch::kCPU);
  TunedVit other(source, options, 2, torch::kCPU), plain(source, {}, 1, torch::kCPU);
  EXPECT_TRUE(torch::equal(vit.features(rows), plain.features(rows)));
  const auto down = [](TunedVit& tuned) {
    return tuned.trainable().named_parameters()["blocks.2.attn.qkv.lora_down"];
  };
  EXPECT_TRUE(torch::equal(down(vit), down(same)));
  EXPECT_FALSE(torch::equal(down(vit), down(other)));
  EXPECT_EQ(vit.trainable().parameters().size(), 8u);
  // Every strategy and chunk gives the same gradients of them.
  const torch::NoGradGuard no_grad;
  for (TunedVit* each : {&vit, &same})
    for (auto& parameter : each->trainable().named_parameters())
      if (parameter.key().ends_with("lora_up")) parameter.value().fill_(0.1);
  const Step expected = step_of(vit, rows);
  expect_same(step_of(same, rows), expected, 0);
  for (const Strategy strategy : {Strategy::kNone, Strategy::kOptimal}) {
    TuneOptions others = options;
    others.strategy = strategy;
    others.chunk = 2;
    TunedVit third(source, others, 1, torch::kCPU);
    for (auto& parameter : third.trainable().named_parameters())
      if (parameter.key().ends_with("lora_up")) parameter.value().fill_(0.1);
    expect_same(step_of(third, rows), expected, 1e-5);
  }
}

TEST_F(TunedVitTest, MergedIsWhatItComputes) {
  for (const std::int64_t rank : {0, 3}) {
    TunedVit vit(source, {.blocks = 2, .lora_rank = rank}, 1, torch::kCPU);
    EXPECT_EQ(vit.merged().size(), source.tensors().size());
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : vit.trainable().parameters())
      parameter.add_(0.1 * torch::sin(torch::arange(parameter.numel()).view(parameter.sizes())));
    vit::StateDictSource merged(vit.merged());
    vit::VisionTransformer model(vit::Scope(merged), source.architecture(), source.image_size());
    merged.finish();
    torch::Tensor x = rows.to(torch::kFloat32);
    vit::TorchOperations ops;
    for (std::int64_t i = 2; i < 4; ++i) x = model->block(i).forward(ops, x, {});
    const torch::Tensor expected = model->pooled(ops, x, source.features().pooling);
    EXPECT_LE(most(vit.features(rows) - expected), 1e-5 * most(expected));
    for (const auto& [name, tensor] : vit.merged()) {
      const bool tuned = name.starts_with("blocks.2") || name.starts_with("blocks.3") ||
                         (rank == 0 && name.starts_with("norm"));
      if (!tuned) {
        EXPECT_EQ(tensor.data_ptr(), source.tensors().at(name).data_ptr()) << name;
      }
    }
  }
}

// A copy of a weight that autocast kept from a pass without a graph would leave it no gradient.
TEST_F(TunedVitTest, HalfPrecisionIsTheSameByEveryStrategy) {
  TunedVit exact(source, {.blocks = 2}, 1, torch::kCPU);
  const Step full = step_of(exact, rows);
  TunedVit cheap(source, {.blocks = 2, .precision = torch::kBFloat16}, 1, torch::kCPU);
  const Step expected = step_of(cheap, rows);
  expect_same(expected, full, 0.1);
  EXPECT_GT(most(expected.features - full.features), 0);
  EXPECT_TRUE(torch::equal(cheap.features(rows), full.features));  // evaluation is in float32
  TunedVit none(source, {.blocks = 2, .strategy = Strategy::kNone, .precision = torch::kBFloat16},
                1, torch::kCPU);
  expect_same(step_of(none, rows), expected, 0);
}

// Keys that share their exams' and frames' numbers share their masks, whatever the batch.
TEST_F(TunedVitTest, DropoutDependsOnKeysAlone) {
  TunedVit vit(source, {.blocks = 2}, 1, torch::kCPU);
  const temporal::Dropout dropout(0.4, 9, 1);
  const Step all = step_of(vit, rows, dropout);
  const auto keys = keys_of(kFrames);
  vit.step(rows.slice(0, 2, 4), std::span(keys).subspan(2, 2), dropout,
           [&](const torch::Tensor& features) {
             EXPECT_LE(most(features - all.features.slice(0, 2, 4)), 1e-5);
             return torch::zeros_like(features);
           });
  EXPECT_GT(most(all.features - vit.features(rows)), 1e-2);
}

TEST_F(TunedVitTest, DropPathLeavesOutWhatBlocksAddToAFrame) {
  const double share = 0.5;
  TunedVit vit(source, {.blocks = 2, .drop_path = share}, 1, torch::kCPU);
  const temporal::Dropout dropout(0, 9, 1);
  const Step found = step_of(vit, rows, dropout);
  const auto names = names_of(vit.trainable());
  expect_same(found, whole_step(source, names, rows, dropout, share), 1e-5);
  EXPECT_GT(most(found.features - vit.features(rows)), 1e-2);  // evaluation has none
  TunedVit other(source, {.blocks = 2, .strategy = Strategy::kNone, .chunk = 2, .drop_path = share},
                 1, torch::kCPU);
  expect_same(step_of(other, rows, dropout), found, 1e-5);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < 20000; ++key) keys.push_back(mix_bits(key));
  const auto factors =
      dropout.of(0.1).mask(in_block(temporal::RandomPurpose::kDropPath, 11, 0), keys, 1);
  EXPECT_NEAR((factors == 0).to(torch::kFloat64).mean().item<double>(), 0.1, 0.01);
  EXPECT_NEAR(factors.mean().item<double>(), 1, 0.01);  // as timm scales what is left
}

TEST_F(TunedVitTest, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_THROW(TunedVit(source, {.blocks = 3}, 1, torch::kCPU), ConfigError);
  EXPECT_THROW(TunedVit(source, {.blocks = -1}, 1, torch::kCPU), ConfigError);
  EXPECT_THROW(TunedVit(source, {.blocks = 2, .lora_rank = 65}, 1, torch::kCPU), ConfigError);
  EXPECT_THROW(TunedVit(source, {.lora_rank = 4}, 1, torch::kCPU), ConfigError);
  const TunedSource oblong(recipe_of(architecture(), {16, 24}, {}), 0, "");
  EXPECT_THROW(TunedVit(oblong, {.blocks = 4}, 1, torch::kCPU), ConfigError);
  EXPECT_NO_THROW(TunedVit(oblong, {.blocks = 3}, 1, torch::kCPU));
  const Json recipe = recipe_of(architecture(), 16, {});
  EXPECT_THROW(TunedSource(recipe, 5, ""), DataError);
  EXPECT_THROW(TunedSource(recipe, 2, "weights.safetensors"), ConfigError);  // they are random
  Json other = recipe;
  other["backbone"]["kind"] = "module";
  EXPECT_THROW(TunedSource(other, 2, ""), ConfigError);
  other = recipe;
  other["backbone"]["generator"] = "another";
  EXPECT_THROW(TunedSource(other, 2, ""), ConfigError);
  other = recipe;
  other["backbone"]["architecture"]["colour"] = 3;
  EXPECT_THROW(TunedSource(other, 2, ""), DataError);
  EXPECT_THROW(TunedSource(recipe_of(architecture(), 16, {vit::Pooling::kCls, {1, 4}}), 2, ""),
               ConfigError);
}

}  // namespace
}  // namespace coldframe::tune::testing
