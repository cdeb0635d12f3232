// The contract of every source of features (feature_source.h). A new one joins by a row of
// kSources.
#include "train_temporal/data/feature_source.h"

#include <gtest/gtest.h>

#include "tests/cache/support.h"
#include "tests/train_temporal/fit/tune/tuned_models.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/fit/tuned_features.h"

namespace coldframe::temporal {
namespace {

struct MadeSource {
  const char* name;
  FeaturePlacement residence;
  std::unique_ptr<FeatureSource> (*make)(const Dataset& dataset, tune::TunedVit& vit);
  bool computed = false;  // by the ViT, from the cut
};

constexpr std::uint64_t kMuch = 1 << 30, kLittle = 1;  // bytes to read ahead

const MadeSource kSources[] = {
    {"Loaded", FeaturePlacement::kMemory,
     [](const Dataset& dataset, tune::TunedVit&) -> std::unique_ptr<FeatureSource> {
       return std::make_unique<LoadedFeatures>(dataset);
     }},
    {"ReadAhead", FeaturePlacement::kStream,
     [](const Dataset& dataset, tune::TunedVit&) -> std::unique_ptr<FeatureSource> {
       return std::make_unique<FeatureStream>(dataset, RowKind::kFeatures, kMuch);
     }},
    {"ReadWhenWanted", FeaturePlacement::kStream,
     [](const Dataset& dataset, tune::TunedVit&) -> std::unique_ptr<FeatureSource> {
       return std::make_unique<FeatureStream>(dataset, RowKind::kFeatures, kLittle);
     }},
    {"Tuned", FeaturePlacement::kStream,
     [](const Dataset& dataset, tune::TunedVit& vit) -> std::unique_ptr<FeatureSource> {
       return std::make_unique<TunedFeatures>(dataset, vit, TunedFeatures::Options{});
     },
     true},
};

void PrintTo(const MadeSource& source, std::ostream* out) {
  *out << source.name;
}

vit::Architecture tiny_vit() {
  vit::Architecture architecture = vit::small_architecture(16, 2, 8, 2);
  architecture.depth = 2;
  architecture.mlp_hidden = 32;
  return architecture;
}

class EveryFeatureSource : public ::testing::TestWithParam<MadeSource> {
 protected:
  static constexpr std::size_t kExams = 6, kSide = 16;

  void SetUp() override {
    set_quiet(true);
    const cache::Cut pixels{0, {kSide, kSide, 3}};
    for (std::size_t i = 0; i < kExams; ++i) {  // of 1 to 6 frames, of which some are missing
      exams_.push_back(cache::make_exam(std::to_string(i), i, 1 + i, 16, {"clean", "darker"}));
      cache::add_cut(exams_.back(), pixels);
    }
    cache::write_cache(folder_ / "x.cache", exams_, {}, pixels);
    reader_.emplace(folder_ / "x.cache");
    dataset_ =
        load_dataset(*reader_, all_, {}, torch::kCPU, {"clean", "darker"}, GetParam().residence);
    source_ = GetParam().make(dataset_, vit_);
  }
  void TearDown() override {
    source_.reset();
    set_quiet(false);
  }

  // An exam's rows, [present frames, D].
  torch::Tensor expected(std::size_t exam, std::size_t view) {
    const cache::ExamFeatures& made = exams_[exam];
    std::vector<torch::Tensor> rows;
    for (std::size_t t = 0; t < made.info.frames(); ++t) {
      if (made.info.present[t] == 0) continue;
      if (GetParam().computed) {
        const auto* bytes = made.views[view].cut.data() + t * kSide * kSide * 3;
        rows.push_back(torch::empty({kSide, kSide, 3}, torch::kUInt8));
        std::copy_n(bytes, kSide * kSide * 3, static_cast<std::byte*>(rows.back().data_ptr()));
      } else {
        rows.push_back(torch::empty({16}));
        std::copy_n(made.views[view].values.data() + t * 16, 16, rows.back().data_ptr<float>());
      }
    }
    return GetParam().computed ? vit_.features(torch::stack(rows)) : torch::stack(rows);
  }

  void expect_features_of(std::size_t exam, std::size_t view) {
    const Dataset& window = source_->window();
    const Sequence& sequence = window.sequences[exam];
    ASSERT_EQ(sequence.frames(), dataset_.sequences[exam].frames());
    const std::int64_t first =
        sequence.first_row + (source_->one_view() ? 0 : window.rows_before(view));
    const torch::Tensor found =
        window.features.narrow(0, first, sequence.frames()).to(torch::kFloat32);
    EXPECT_TRUE(torch::allclose(found, expected(exam, view), 1e-5, 1e-6)) << exam;
  }

  static std::size_t view_of(std::size_t exam) { return exam % 2; }

  const std::vector<std::size_t> all_{0, 1, 2, 3, 4, 5};
  const cache::MemoryFolder folder_;
  std::vector<cache::ExamFeatures> exams_;
  std::optional<SequenceReader> reader_;
  const tune::TunedSource vit_source_{tune::testing::recipe_of(tiny_vit(), kSide, {}), 0, ""};
  tune::TunedVit vit_{vit_source_, {.blocks = 1}, 1, torch::kCPU};
  Dataset dataset_;
  std::unique_ptr<FeatureSource> source_;
};

TEST_P(EveryFeatureSource, HoldsEachGroupInTurnInItsViews) {
  const Dataset* window = &source_->window();
  EXPECT_GE(source_->exams_at_once(), 1u);
  const FeatureSource::Groups groups{{4, 0}, {5}, {1, 2, 3}};
  source_->plan(groups, view_of);
  for (const std::vector<std::size_t>& group : groups) {
    source_->next();
    source_->evaluate();
    EXPECT_EQ(&source_->window(), window);
    for (const std::size_t exam : group) expect_features_of(exam, view_of(exam));
  }
}

TEST_P(EveryFeatureSource, FollowsItsLastPlanAlone) {
  source_->plan({{0}, {1}, {2}, {3}, {4}, {5}, {0}, {1}}, view_of);
  source_->next();
  source_->plan({{4, 2}});
  source_->next();
  source_->evaluate();
  for (const std::size_t exam : {4u, 2u}) expect_features_of(exam, 0);
  source_->plan({{0}, {1}, {2}, {3}, {4}, {5}});  // and ends while they are read
}

TEST_P(EveryFeatureSource, GivesTheStepsOfABatchAllItsItemsInOrder) {
  source_->plan({all_});
  source_->next();
  const std::vector<BatchItem> items = testing::all_frames(dataset_, {5, 2, 0, 3});
  for (const bool in_turn : {false, true}) {
    std::vector<std::size_t> seen;
    int calls = 0;
    source_->train(items, in_turn, 0, [&](std::span<const BatchItem> some) {
      ++calls;
      const PackedBatch batch = make_batch(source_->window(), {some.begin(), some.end()});
      const torch::Tensor found = gather_features(source_->window(), batch);
      double sum = 0;
      for (const BatchItem& item : some) {
        seen.push_back(item.exam);
        sum += expected(item.exam, 0).sum().item<double>();
      }
      EXPECT_NEAR(found.sum().item<double>(), sum, 1e-3);
      if (found.requires_grad()) found.square().sum().backward();
    });
    EXPECT_EQ(seen, (std::vector<std::size_t>{5, 2, 0, 3}));
    EXPECT_TRUE(in_turn || calls == 1);
  }
  for (const torch::Tensor& parameter : vit_.trainable().parameters())
    EXPECT_EQ(parameter.grad().defined(), GetParam().computed);
}

INSTANTIATE_TEST_SUITE_P(All, EveryFeatureSource, ::testing::ValuesIn(kSources),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace coldframe::temporal
