// Values that are kept in 8 bits, and the gradients that come of them.
#include "train_temporal/tune/recompute/eight_bits.h"

#include "tests/train_temporal/tune/tuned_models.h"

namespace coldframe::tune::testing {
namespace {

// Halves of the steps of x's groups, each for all values of its group.
torch::Tensor half_steps(const torch::Tensor& x, std::int64_t group) {
  const torch::Tensor groups = x.to(torch::kFloat32).view({-1, group});
  const torch::Tensor half = (groups.amax(1, true) - groups.amin(1, true)) / 510;
  return half.expand_as(groups).reshape(x.sizes());
}

TEST(EightBits, ValuesAreOffByHalfAStepAtMost) {
  torch::manual_seed(1);
  for (const auto& [width, group] :
       {std::pair{256, 128}, std::pair{130, 130}, std::pair{5460, 130}, std::pair{1, 1}}) {
    for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
      const torch::Tensor x = (torch::randn({3, 5, width}) * 4).to(type);
      const torch::Tensor found = EightBits(x).values();
      EXPECT_EQ(found.scalar_type(), type);
      EXPECT_EQ(found.sizes(), x.sizes());
      // bfloat16 has 8 bits of its own
      const double more = type == torch::kFloat32 ? 1e-6 : 1.0 / 256;
      const torch::Tensor most = half_steps(x, group) * 1.005 + more * x.to(torch::kFloat32).abs();
      const torch::Tensor off = (found.to(torch::kFloat32) - x.to(torch::kFloat32)).abs();
      EXPECT_TRUE((off <= most).all().item<bool>()) << width;
      EXPECT_TRUE(width == 1 || off.max().item<float>() > 0);
    }
  }
}

TEST(EightBits, ManyPiecesAreOnes) {
  const std::int64_t rows = 3 * EightBits::piece(false) / 128 + 1;
  const torch::Tensor x = torch::randn({rows, 128});
  const torch::Tensor all = EightBits(x).values();
  for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1})
    EXPECT_TRUE(
        torch::equal(all.slice(0, row, row + 1), EightBits(x.slice(0, row, row + 1)).values()));
}

TEST(EightBits, EqualValuesStayAndNotANumberStaysNone) {
  const torch::Tensor x = torch::full({2, 128}, -3.7);
  EXPECT_TRUE(torch::equal(EightBits(x).values(), x));
  x[1][5] = NAN;
  const torch::Tensor found = EightBits(x).values();
  EXPECT_TRUE(torch::equal(found[0], x[0]));
  EXPECT_TRUE(found[1].isnan().all().item<bool>());  // so that nobody takes them for values
}

using RoundedGradients = QuietTest;

// Where the budget asks for 8 bits, the gradient of all parameters together is within 1 %, with
// every kind of MLP.
TEST_F(RoundedGradients, AreWithinOnePercent) {
  for (const auto& [name, set] :
       std::initializer_list<std::pair<const char*, void (*)(vit::Architecture&)>>{
           {"plain", [](vit::Architecture&) {}},
           {"gated", [](vit::Architecture& a) { a.gated_mlp = true; }},
           {"tanh", [](vit::Architecture& a) { a.activation = vit::Activation::kGeluTanh; }},
           {"quick", [](vit::Architecture& a) { a.activation = vit::Activation::kQuickGelu; }},
           {"normed", [](vit::Architecture& a) { a.gated_mlp = a.mlp_norm = true; }}}) {
    SCOPED_TRACE(name);
    vit::Architecture architecture = vit::small_architecture(64, 2, 4, 4);
    architecture.depth = 4;
    architecture.mlp_hidden = 256;
    set(architecture);
    const TunedSource source(recipe_of(architecture, 16, {}), 0, "");
    const torch::Tensor rows = rows_of(source);
    const temporal::Dropout dropout(0.3, 5, 2);
    TunedVit cheap(source, {.blocks = 4}, 1, torch::kCPU);
    const Step exact = step_of(cheap, rows, dropout);
    const std::uint64_t budget = cheap.predicted_bytes(kFrames) * 9 / 10;
    const TuneOptions rounding{.blocks = 4, .budget = budget, .eight_bits = true};
    TunedVit rounded(source, rounding, 1, torch::kCPU);
    const Step found = step_of(rounded, rows, dropout);
    EXPECT_TRUE(torch::equal(found.features, exact.features));
    const double off = distance(found.gradients, exact.gradients);
    EXPECT_GT(off, 1e-4);
    EXPECT_LT(off, 0.01);
    expect_same(step_of(rounded, rows, dropout), found, 0);
    // Nothing is rounded where all fits.
    TunedVit free(source, {.blocks = 4, .eight_bits = true}, 1, torch::kCPU);
    expect_same(step_of(free, rows, dropout), exact, 0);
  }
}

}  // namespace
}  // namespace coldframe::tune::testing
