// Gradients of the end of a ViT, whatever goes about its memory, are those of one graph.
#include "common/cli/error.h"
#include "tests/train_temporal/tune/tuned_models.h"

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

class Strategies : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::set_num_threads(1); }  // quicker, for models as small as these
};

TEST_P(Strategies, GradientsAreThoseOfOneGraph) {
  const Case& c = GetParam();
  const TunedSource source(recipe_of(c.architecture, 16, c.features), c.cut, "");
  const torch::Tensor rows = rows_of(source);
  for (const double probability : {0.0, 0.3}) {
    const temporal::Dropout dropout(probability, 5, 2);
    TunedVit vit(source, {.blocks = c.blocks}, 1, torch::kCPU);
    const Step none = step_of(vit, rows, dropout);
    // Frozen blocks have no dropout; the one graph has it everywhere.
    if (probability == 0 || c.cut + c.blocks == c.architecture.depth)
      expect_same(none, whole_step(source, names_of(vit.trainable()), rows, dropout), 1e-5);
    for (const Strategy strategy : {Strategy::kBlock, Strategy::kSqrt, Strategy::kMlp}) {
      TunedVit other(source, {.blocks = c.blocks, .strategy = strategy}, 1, torch::kCPU);
      expect_same(step_of(other, rows, dropout), none, 0);
    }
    for (const std::int64_t chunk : {1, 2}) {
      TunedVit other(source, {.blocks = c.blocks, .chunk = chunk}, 1, torch::kCPU);
      expect_same(step_of(other, rows, dropout), none, 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Strategies, ::testing::ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

TEST(TunedVitTest, FeaturesAreThoseOfTheStep) {
  vit::Architecture architecture = vit::small_architecture(64, 2, 4, 4);
  const TunedSource source(recipe_of(architecture, 16, {}), 10, "");
  TunedVit vit(source, {.blocks = 2}, 1, torch::kCPU);
  const torch::Tensor rows = rows_of(source);
  const Step step = step_of(vit, rows);
  EXPECT_TRUE(torch::equal(vit.features(rows), step.features));
  EXPECT_EQ(vit.dimension(), step.features.size(1));
}

}  // namespace
}  // namespace coldframe::tune::testing
