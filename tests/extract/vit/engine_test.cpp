// The CPU engine against the readable ViT, and its kernels against sums in double.
#include "extract/vit/cpu/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "extract/vit/cpu/choose.h"
#include "tests/extract/vit/engine_models.h"

namespace coldframe::vit::cpu {
namespace {

// Relative: bf16 has 8 bits, fp16 11.
double tolerance_of(DType element) {
  return element == DType::kFp32 ? 2e-6 : element == DType::kBf16 ? 8e-3 : 1e-3;
}

// All that this processor can run.
std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all = available_kernels();
  if (plain_tile_kernels()) all.push_back(plain_tile_kernels());
  return all;
}

// Those of tiles: where the processor has AMX, both kinds.
std::vector<const Kernels*> tile_kernels() {
  std::vector<const Kernels*> all;
  for (const Kernels* const kernels : {plain_tile_kernels(), amx_bf16_kernels()})
    if (kernels) all.push_back(kernels);
  return all;
}

std::string name_of(const ::testing::TestParamInfo<const Kernels*>& info) {
  std::string name = info.param->name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

class KernelTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override { torch::manual_seed(1); }

  torch::Tensor random(torch::IntArrayRef shape) const {
    return torch::randn(shape).to(scalar_type(kernels_.element));
  }
  torch::Tensor empty(torch::IntArrayRef shape) const {
    return torch::empty(shape, scalar_type(kernels_.element));
  }
  void expect_near(const torch::Tensor& found, const torch::Tensor& expected, double scale) const {
    const torch::Tensor difference = (found.to(torch::kFloat64) - expected).abs();
    EXPECT_LE(difference.max().item<double>(), tolerance_of(kernels_.element) * scale);
  }

  // |found − expected| ≤ tolerance · scale · (1 + |expected|)
  void expect_close(const torch::Tensor& found, const torch::Tensor& expected,
                    double scale = 1) const {
    const torch::Tensor difference = (found.to(torch::kFloat64) - expected).abs();
    EXPECT_LE((difference / (1 + expected.abs())).max().item<double>(),
              tolerance_of(kernels_.element) * scale);
  }
  static torch::Tensor activated(const torch::Tensor& x, Activation activation) {
    TorchOperations ops;
    return activate(ops, x, activation);
  }
  std::vector<std::pair<Activation, ActivationKernels>> activations() const {
    return {{Activation::kGelu, kernels_.gelu},
            {Activation::kGeluTanh, kernels_.gelu_tanh},
            {Activation::kQuickGelu, kernels_.quick_gelu},
            {Activation::kSilu, kernels_.silu}};
  }

  const Kernels& kernels_ = *GetParam();
};

TEST_P(KernelTest, MultipliesEveryHeightOfTile) {
  for (const std::int64_t depth : {2, 14, 64, 390}) {
    double errors = 0, squares = 0;
    for (std::int64_t rows = 1; rows <= kernels_.rows; ++rows) {
      const torch::Tensor a = random({rows, depth}), b = random({kernels_.columns, depth});
      const std::int64_t words = depth / elements_per_word(kernels_.element);
      torch::Tensor panel = torch::empty({words, kernels_.columns}, torch::kInt32);
      kernels_.pack_transposed(static_cast<const Word*>(b.data_ptr()), words, kernels_.columns,
                               words, static_cast<Word*>(panel.data_ptr()));
      torch::Tensor sums = torch::full({rows, kernels_.columns + 3}, 7.0f);
      const ProductState state(kernels_);
      kernels_.multiply(rows, {static_cast<const Word*>(a.data_ptr()), words,
                               static_cast<const Word*>(panel.data_ptr()), words,
                               sums.data_ptr<float>(), sums.size(1)});
      const torch::Tensor expected = a.to(torch::kFloat64).mm(b.to(torch::kFloat64).t());
      const torch::Tensor found = sums.narrow(1, 0, kernels_.columns);
      const torch::Tensor error = found - expected;
      errors += error.square().sum().item<double>();
      squares += expected.square().sum().item<double>();
      if (kernels_.element == DType::kFp16)  // sums in fp16 stray at random
        EXPECT_LE(error.norm().item<double>(), 2e-3 * expected.norm().item<double>());
      else
        EXPECT_LE(error.abs().max().item<double>(), 5e-5);
      EXPECT_TRUE((sums.narrow(1, kernels_.columns, 3) == 7).all().item<bool>());
    }
    const double share = std::sqrt(errors / squares);
    EXPECT_LE(share, kernels_.element == DType::kFp16 ? 9e-4 : 1e-6) << depth;
  }
}

TEST_P(KernelTest, FinishesTheProductBefore) {
  const std::int64_t rows = kernels_.rows, columns = kernels_.columns, depth = 70;
  const std::int64_t words = depth / elements_per_word(kernels_.element);
  const torch::Tensor a = random({rows, depth});
  const torch::Tensor panel = torch::zeros({words, columns}, torch::kInt32);
  const torch::Tensor bias = torch::randn({columns});
  for (const std::int64_t height : {rows, std::int64_t{1}}) {
    torch::Tensor before = torch::randn({height, columns}), sums = torch::empty({rows, columns});
    torch::Tensor out = torch::randn({height, columns});
    const torch::Tensor expected = out + before + bias;
    Pending pending{kernels_.add,
                    height,
                    {before.const_data_ptr<float>(), columns, height, columns,
                     bias.const_data_ptr<float>(), out.data_ptr(), columns}};
    const ProductState state(kernels_);
    kernels_.multiply(rows, {static_cast<const Word*>(a.data_ptr()), words,
                             static_cast<const Word*>(panel.data_ptr()), words,
                             sums.data_ptr<float>(), columns, &pending});
    EXPECT_TRUE(at::allclose(out, expected, 1e-6, 1e-6));
  }
}

TEST_P(KernelTest, PacksRowsAndFillsUpWithZeros) {
  const std::int64_t per_word = elements_per_word(kernels_.element), count = 5;
  const std::int64_t width = kernels_.columns + 3, words = (count + per_word - 1) / per_word;
  const torch::Tensor in = random({count, width + 2});
  torch::Tensor panels = torch::full({2, words, kernels_.columns}, -1, torch::kInt32);
  kernels_.pack(in.data_ptr(), width + 2, count, width, static_cast<Word*>(panels.data_ptr()));
  const torch::Tensor elements = panels.view(scalar_type(kernels_.element))
                                     .view({2, words, kernels_.columns, per_word})
                                     .permute({1, 3, 0, 2})
                                     .reshape({words * per_word, 2 * kernels_.columns});
  EXPECT_TRUE(elements.slice(0, 0, count).slice(1, 0, width).equal(in.slice(1, 0, width)));
  EXPECT_TRUE((elements.slice(0, count) == 0).all().item<bool>());
  EXPECT_TRUE((elements.slice(1, width) == 0).all().item<bool>());
}

TEST_P(KernelTest, ActivationsAreTheExactOnes) {
  const torch::Tensor filled = torch::cat(
      {torch::linspace(-10, 10, 4001), torch::tensor({-1e4f, 1e4f}), torch::zeros({13})});
  const std::int64_t count = filled.size(0) - 13;  // no whole number of vectors
  const torch::Tensor x = filled.narrow(0, 0, count);
  const torch::Tensor bias = torch::full({filled.size(0)}, 0.25f);
  for (const auto& [activation, kernels] : activations()) {
    torch::Tensor out = empty({count});
    kernels.alone({x.const_data_ptr<float>(), count, 1, count, bias.const_data_ptr<float>(),
                   out.data_ptr(), count});
    expect_close(out, activated((x + 0.25f).to(torch::kFloat64), activation));
  }
}

TEST_P(KernelTest, GatesMultiplyTheOtherHalfOfAPanel) {
  const std::int64_t half = kernels_.columns / 2, rows = 3;
  const torch::Tensor sums = torch::randn({rows, kernels_.columns}) * 3;
  const torch::Tensor bias = torch::randn({kernels_.columns});
  const torch::Tensor all = (sums + bias).to(torch::kFloat64);
  for (const auto& [activation, kernels] : activations())
    for (const std::int64_t columns : {half, half - 3}) {
      torch::Tensor out = torch::full({rows, half}, 7, empty({0}).options());
      kernels.gate({sums.const_data_ptr<float>(), kernels_.columns, rows, columns,
                    bias.const_data_ptr<float>(), out.data_ptr(), half});
      expect_close(out.narrow(1, 0, columns),
                   activated(all.narrow(1, 0, columns), activation) * all.narrow(1, half, columns),
                   4);
      EXPECT_TRUE((out.narrow(1, columns, half - columns) == 7).all().item<bool>());
    }
}

TEST_P(KernelTest, RotatesPairsOfAnyCount) {
  for (const std::int64_t half : {1, 5, 16, 36}) {
    const std::int64_t rows = 3, stride = 2 * half + 5;
    const torch::Tensor x = random({rows, stride});
    const torch::Tensor first = torch::randn({rows, half}) * 3, second = first + 1;
    const torch::Tensor sine = first.sin(), cosine = first.cos();
    const torch::Tensor other_sine = second.sin(), other_cosine = second.cos();
    torch::Tensor found = x.clone();
    kernels_.rotate(found.data_ptr(), stride, rows, half,
                    {sine.const_data_ptr<float>(), cosine.const_data_ptr<float>()},
                    {other_sine.const_data_ptr<float>(), other_cosine.const_data_ptr<float>()});
    torch::Tensor expected = x.to(torch::kFloat64);
    const torch::Tensor a = expected.slice(1, 0, half).clone();
    const torch::Tensor b = expected.slice(1, half, 2 * half).clone();
    expected.slice(1, 0, half).copy_(a * cosine - b * sine);
    expected.slice(1, half, 2 * half).copy_(b * other_cosine + a * other_sine);
    expect_near(found, expected, 4);
    EXPECT_TRUE(found.slice(1, 2 * half).equal(x.slice(1, 2 * half)));
  }
}

TEST_P(KernelTest, SoftmaxOfRowsOfAnyLength) {
  for (const std::int64_t count : {1, 5, 16, 50}) {
    const std::int64_t stride = 64;
    torch::Tensor scores = torch::randn({3, stride}) * 30;
    const torch::Tensor expected =
        (scores.narrow(1, 0, count).to(torch::kFloat64) * 0.25).softmax(1);
    torch::Tensor out = empty({3, stride}), inverse = torch::empty({3});
    kernels_.softmax(scores.data_ptr<float>(), stride, 3, count, 0.25f * 1.44269504f,
                     out.data_ptr(), inverse.data_ptr<float>());
    expect_near(out.narrow(1, 0, count).to(torch::kFloat64) * inverse.unsqueeze(1), expected, 4);
    const std::int64_t end = round_up(count, elements_per_word(kernels_.element));
    EXPECT_TRUE((out.narrow(1, count, end - count) == 0).all().item<bool>());
  }
}

TEST_P(KernelTest, NormsOfAnyWidth) {
  const auto wide = [](const torch::Tensor& tensor) { return tensor.to(torch::kFloat64); };
  for (const std::int64_t width : {3, 64, 100})
    for (const bool centred : {true, false}) {
      const torch::Tensor x = torch::randn({4, width}) * 3 + 2, weight = torch::randn({width});
      const torch::Tensor bias = centred ? torch::randn({width}) : torch::zeros({width});
      const NormFactors factors{weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), 0.1f,
                                centred};
      const auto expected = [&](const torch::Tensor& of) {
        return centred
                   ? at::layer_norm(wide(of), {width}, wide(weight), wide(bias), factors.epsilon)
                   : at::rms_norm(wide(of), {width}, wide(weight), factors.epsilon);
      };
      torch::Tensor out = empty({4, width});
      kernels_.norm(x.const_data_ptr<float>(), 4, width, factors, out.data_ptr());
      expect_near(out, expected(x), 4);
      torch::Tensor elements = at::constant_pad_nd(x, {0, 5}, 7).to(scalar_type(kernels_.element));
      const torch::Tensor before = elements.narrow(1, 0, width).clone();
      kernels_.norm_in_place(elements.data_ptr(), width + 5, 4, width, factors);
      expect_near(elements.narrow(1, 0, width), expected(before), 4);
      EXPECT_TRUE((elements.narrow(1, width, 5) == 7).all().item<bool>());
    }
}

TEST_P(KernelTest, RoundsToNearestAndKeepsNotANumber) {
  torch::Tensor x = torch::randn({1000});
  x[0] = NAN;
  x[1] = INFINITY;
  x[999] = NAN;  // one by one, behind the last whole vector
  torch::Tensor out = empty({1000});
  kernels_.convert(x.const_data_ptr<float>(), 1000, out.data_ptr());
  EXPECT_TRUE(at::allclose(out, x.to(scalar_type(kernels_.element)), 0, 0, /*equal_nan=*/true));
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest, ::testing::ValuesIn(all_kernels()), name_of);

// AMX and its likeness in plain C++ against Intel's description, bit by bit.
class TileTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override { torch::manual_seed(1); }

  static float flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  }

  // a [rows, depth] · bᵀ [columns, depth] of TDPBF16PS, one after the other for 32 numbers each:
  // Software Developer's Manual, volume 2, with the C library's fused multiply-add.
  static torch::Tensor products(const torch::Tensor& a, const torch::Tensor& b) {
    const torch::Tensor left = a.to(torch::kFloat32), right = b.to(torch::kFloat32);
    const torch::Tensor sums = torch::zeros({a.size(0), b.size(0)});
    for (std::int64_t r = 0; r < a.size(0); ++r)
      for (std::int64_t c = 0; c < b.size(0); ++c) {
        const float* const x = left[r].const_data_ptr<float>();
        const float* const y = right[c].const_data_ptr<float>();
        float& sum = sums.data_ptr<float>()[r * b.size(0) + c];
        for (std::int64_t k = 0; k < a.size(1);) {
          float of[2] = {0, 0};  // even and odd numbers
          for (const std::int64_t end = std::min(k + 32, a.size(1)); k < end; ++k)
            of[k % 2] = flushed(std::fma(flushed(x[k]), flushed(y[k]), of[k % 2]));
          sum = flushed(sum + flushed(of[0] + of[1]));
        }
      }
    return sums;
  }

  static void expect_same_bits(const torch::Tensor& found, const torch::Tensor& expected) {
    ASSERT_EQ(found.sizes(), expected.sizes());
    const torch::ScalarType bits =
        found.scalar_type() == torch::kFloat32 ? torch::kInt32 : torch::kInt16;
    EXPECT_TRUE(found.contiguous().view(bits).equal(expected.contiguous().view(bits)));
  }

  const Kernels& kernels_ = *GetParam();
};

// Magnitudes from 2^-140 to 2^60, so that numbers, products and sums are denormal at times, cancel,
// and lose all of the smaller one.
TEST_P(TileTest, RoundsAsTheManualSays) {
  for (const double spread : {0.0, 3.0, 30.0}) {
    const auto numbers = [&](std::int64_t rows, double exponent) {
      const torch::Tensor exponents = torch::randn({rows, 64}) * spread + exponent;
      return (torch::randn({rows, 64}) * exponents.clamp(-140, 60).exp2()).to(torch::kBFloat16);
    };
    for (const double exponent : {0.0, -63.0, -126.0}) {
      const torch::Tensor a = numbers(32, exponent), b = numbers(32, -63);
      torch::Tensor panel = torch::empty({32, 32}, torch::kInt32);
      kernels_.pack_transposed(static_cast<const Word*>(b.data_ptr()), 32, 32, 32,
                               static_cast<Word*>(panel.data_ptr()));
      torch::Tensor sums = torch::empty({32, 32});
      const ProductState state(kernels_);
      kernels_.multiply(
          32, {static_cast<const Word*>(a.data_ptr()), 32,
               static_cast<const Word*>(panel.data_ptr()), 32, sums.data_ptr<float>(), 32});
      expect_same_bits(sums, products(a, b));
    }
  }
}

TEST_P(TileTest, LinearLayersOfAnyShape) {
  for (const std::int64_t rows : {1, 16, 17, 33, 70})
    for (const std::int64_t in : {30, 64, 100})
      for (const std::int64_t out : {32, 50, 130}) {
        const torch::Tensor weight = torch::randn({out, in}), bias = torch::randn({out});
        const torch::Tensor x = torch::randn({rows, in}).to(torch::kBFloat16);
        const PackedLinear linear(kernels_, torch::kBFloat16, weight, bias);
        const torch::Tensor expected = products(x, weight.to(torch::kBFloat16)) + bias;
        torch::Tensor stored = torch::empty({rows, out}, torch::kBFloat16);
        linear.apply(x.const_data_ptr(), rows, kernels_.store, stored.data_ptr(), out);
        expect_same_bits(stored, expected.to(torch::kBFloat16));
        torch::Tensor added = torch::randn({rows, out});
        const torch::Tensor all = added + expected;
        linear.apply(x.const_data_ptr(), rows, kernels_.add, added.data_ptr(), out);
        expect_same_bits(added, all);
      }
}

// Without AVX2 there is no engine.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TileTest);
INSTANTIATE_TEST_SUITE_P(All, TileTest, ::testing::ValuesIn(tile_kernels()), name_of);

Architecture shape(std::int64_t width, std::int64_t heads, std::int64_t patch, std::int64_t grid) {
  Architecture architecture = small_architecture(width, heads, patch, grid);
  architecture.depth = 2;
  architecture.mlp_hidden = 2 * width + 2;
  return architecture;
}

std::vector<SmallModel> plain_models() {
  return {{"plain", shape(128, 2, 8, 5), 40},
          {"narrow_heads", shape(60, 5, 4, 3), 12},
          {"wide_head", shape(160, 1, 8, 2), 16},
          // An odd patch: 147 pixels do not fill words of bf16.
          {"dinov2", with_registers(shape(64, 1, 7, 3)), 21},
          {"bare", without_class_token(shape(96, 2, 4, 4)), 16},
          {"fc_norm", with_fc_norm(shape(64, 2, 4, 4)), 16},
          {"many_tokens", shape(64, 1, 2, 15), 30},
          {"one_patch", shape(64, 1, 4, 1), 4}};
}

std::vector<SmallModel> models() {
  std::vector<SmallModel> all = plain_models();
  for (const SmallModel& one : beyond_plain_models()) all.push_back(one);
  for (const SmallModel& one : clip_models()) all.push_back(one);
  return all;
}

void expect_same_features(const torch::Tensor& found, const torch::Tensor& expected,
                          DType element) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  if (found.size(0) == 0) return;
  if (element == DType::kFp32)
    EXPECT_LE((found - expected).abs().max().item<double>(), 5e-5);
  else
    EXPECT_GE(at::cosine_similarity(found, expected).min().item<double>(), 0.9999);
}

TEST(Engine, EqualsTheReadableViT) {
  const torch::InferenceMode guard;
  for (const SmallModel& one : models()) {
    VisionTransformer model = one.make();
    torch::manual_seed(2);
    const torch::Tensor images = one.inputs(5);
    const torch::Tensor tokens = model->forward_features(images);
    for (const Kernels* kernels : all_kernels()) {
      Engine engine(*model, one.image_size, *kernels, scalar_type(kernels->element));
      for (const Pooling pooling : poolings_of(one.architecture)) {
        const torch::Tensor expected = model->forward_head(tokens, pooling);
        for (const std::int64_t batch : {5, 1, 0}) {  // shared among threads, by one, none
          SCOPED_TRACE(one.name + ", " + kernels->name + ", " + to_string(pooling));
          expect_same_features(engine.forward(images.narrow(0, 0, batch), {pooling}),
                               expected.narrow(0, 0, batch), kernels->element);
        }
      }
    }
  }
}

void expect_same_for_any_number_of_threads(const SmallModel& one) {
  VisionTransformer model = one.make();
  const torch::Tensor images = one.inputs(7);
  const FeatureOptions features{poolings_of(one.architecture).back()};
  const int threads = at::get_num_threads();
  for (const Kernels* kernels : all_kernels()) {
    SCOPED_TRACE(one.name + ", " + kernels->name);
    Engine engine(*model, one.image_size, *kernels, scalar_type(kernels->element));
    at::set_num_threads(1);
    const torch::Tensor alone = engine.forward(images, features);
    for (const int count : {2, 3, 9}) {
      at::set_num_threads(count);
      EXPECT_TRUE(engine.forward(images, features).equal(alone)) << count << " threads";
    }
    at::set_num_threads(threads);
  }
}

TEST(Engine, GivesTheSameFeaturesForAnyNumberOfThreads) {
  const torch::InferenceMode guard;
  expect_same_for_any_number_of_threads(plain_models().front());
  for (const SmallModel& one : beyond_plain_models())
    if (one.name == "eva02" || one.name == "beit" || one.name == "dinov3_gated")
      expect_same_for_any_number_of_threads(one);
  for (const SmallModel& one : clip_models()) expect_same_for_any_number_of_threads(one);
}

TEST(Engine, SaysWhatItCannotCompute) {
  const Architecture odd = shape(63, 3, 4, 2);  // heads of 21 features
  Kernels singles{}, pairs{};
  singles.element = DType::kFp32;
  pairs.element = DType::kBf16;
  EXPECT_FALSE(refusal(odd, singles));
  EXPECT_TRUE(refusal(odd, pairs));
  for (const BlockKind kind :
       {BlockKind::kPostNorm, BlockKind::kParallelThings, BlockKind::kParallelScaling}) {
    Architecture other = shape(64, 2, 4, 2);
    other.block = kind;
    const auto reason = refusal(other, singles);
    ASSERT_TRUE(reason);
    EXPECT_NE(reason->find(word_for(kBlockKinds, kind)), std::string::npos) << *reason;
  }
}

TEST(Engine, RoundsWeightsAloneWhereFloatIsAsQuick) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models().front();
  VisionTransformer model = one.make();
  const torch::Tensor images = torch::randn({2, 3, one.image_size, one.image_size});
  const auto half_engine = make_engine(*model, one.image_size, Precision::kBf16);
  if (!half_engine) GTEST_SKIP() << "this processor lacks AVX2, or Linux refuses its AMX";
  const torch::Tensor half = half_engine->forward(images, {Pooling::kCls});
  const torch::Tensor whole =
      make_engine(*model, one.image_size, Precision::kFp32)->forward(images, {Pooling::kCls});
  EXPECT_FALSE(whole.equal(half));
  EXPECT_GE(at::cosine_similarity(whole, half).min().item<double>(), 0.999);
}

TEST(Engine, LeavesWhatItExpectsForWhatIsClearlyQuicker) {
  EXPECT_EQ(clearly_quickest({1}), 0);
  EXPECT_EQ(clearly_quickest({1, 0.7}), 0);
  EXPECT_EQ(clearly_quickest({1, 0.6}), 1);
  EXPECT_EQ(clearly_quickest({1, 0.6, 0.5}), 1);
  EXPECT_EQ(clearly_quickest({1, 0.9, 0.5}), 2);
  const double never = std::numeric_limits<double>::infinity();  // it strays
  EXPECT_EQ(clearly_quickest({never, 1}), 1);
  EXPECT_EQ(clearly_quickest({never, never}), 0);
}

TEST(Engine, ComputesInFp16WhereTheProcessorDoes) {
  const SmallModel one = plain_models().front();
  VisionTransformer model = one.make();
  const bool made = make_engine(*model, one.image_size, Precision::kFp16) != nullptr;
  EXPECT_EQ(made, avx512_fp16_kernels() != nullptr);
}

}  // namespace
}  // namespace coldframe::vit::cpu
