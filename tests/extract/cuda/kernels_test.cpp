// The kernels' arithmetic, run by their CPU twins, against LibTorch's operators in float64.
#include "extract/cuda/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "extract/cuda/library.h"
#include "extract/cuda/numbers.h"
#include "tests/extract/cuda/kernel_calls.h"
#include "tests/extract/cuda/twin.h"

namespace coldframe::cuda {
namespace {

// Half a unit in the last place: bf16 has 8 bits, fp16 11.
double rounding_of(torch::ScalarType type) {
  return type == torch::kBFloat16 ? 4e-3 : type == torch::kHalf ? 5e-4 : 1e-6;
}

torch::Tensor wide(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64);
}

// |found − expected| ≤ tolerance · (1 + |expected|)
void expect_near(const torch::Tensor& found, const torch::Tensor& expected, double tolerance) {
  const torch::Tensor error = (wide(found) - expected).abs() / (1 + expected.abs());
  EXPECT_LE(error.max().item<double>(), tolerance);
}

TEST(Numbers, RoundAsLibTorch) {
  std::vector<float> values{0.0f,  -0.0f,   65519.0f, 65520.0f, -65520.0f, 1e30f,    3e38f,
                            6e-8f, 2.9e-8f, 2.98e-8f, 6.1e-5f,  INFINITY,  -INFINITY};
  torch::manual_seed(1);
  const torch::Tensor random = torch::randn({4000}) * torch::exp(10 * torch::randn({4000}));
  values.insert(values.end(), random.const_data_ptr<float>(),
                random.const_data_ptr<float>() + random.numel());
  for (const float x : values) {
    EXPECT_EQ(to_float(rounded<Bf16>(x)), static_cast<float>(c10::BFloat16(x))) << x;
    EXPECT_EQ(to_float(rounded<Fp16>(x)), static_cast<float>(c10::Half(x))) << x;
    EXPECT_EQ(rounded<float>(x), x);
  }
  for (int bits = 0; bits < 0x7c00; ++bits) {  // every finite half comes back
    const Fp16 half{static_cast<std::uint16_t>(bits)};
    EXPECT_EQ(rounded<Fp16>(to_float(half)).bits, bits);
  }
  EXPECT_TRUE(std::isnan(to_float(rounded<Bf16>(NAN))));
  EXPECT_TRUE(std::isnan(to_float(rounded<Fp16>(NAN))));
}

struct Types {
  torch::ScalarType residual, element;
};

class TwinKernels : public ::testing::TestWithParam<Types> {
 protected:
  void SetUp() override { torch::manual_seed(1); }
  const Types types_ = GetParam();
  const GpuKernels& kernels_ = twin_kernels();
};

TEST_P(TwinKernels, ResidualNormIsAnAdditionAndLayerNorm) {
  for (const std::int64_t width : {4, 60, 192, 384, 388, 768, 1024, 1280, 1408, 2048}) {
    SCOPED_TRACE(width);
    const NormInputs in{(torch::randn({5, width}) * 3 + 2).to(types_.residual),
                        torch::randn({5, width}).to(types_.element),
                        torch::randn({width}),
                        torch::randn({width}),
                        torch::randn({width}),
                        torch::randn({width})};
    const torch::Tensor sum = wide(in.x) + wide(in.gamma) * (wide(in.y) + wide(in.y_bias));
    const torch::Tensor expected =
        at::layer_norm(sum, {width}, wide(in.weight), wide(in.bias), 1e-6);
    const torch::Tensor z = residual_norm(kernels_, in);
    expect_near(in.x, sum, rounding_of(types_.residual));
    expect_near(z, expected, rounding_of(types_.element) * (width < 16 ? 20 : 3));
  }
}

TEST_P(TwinKernels, ResidualNormWithoutScaleAndBias) {
  const NormInputs in{torch::randn({3, 64}).to(types_.residual),
                      torch::randn({3, 64}).to(types_.element),
                      {},
                      {},
                      torch::randn({64}),
                      torch::randn({64})};
  const torch::Tensor sum = wide(in.x) + wide(in.y);
  const torch::Tensor z = residual_norm(kernels_, in);
  expect_near(in.x, sum, rounding_of(types_.residual));
  expect_near(z, at::layer_norm(sum, {64}, wide(in.weight), wide(in.bias), 1e-6),
              3 * rounding_of(types_.element));
}

TEST_P(TwinKernels, NormsTakeTheirEpsilonAndMayNotCentre) {
  for (const bool centred : {true, false}) {
    const NormInputs in{torch::randn({3, 64}).to(types_.residual) + 1,
                        torch::randn({3, 64}).to(types_.element),
                        {},
                        {},
                        torch::randn({64}),
                        torch::zeros({64}),
                        0.5f,
                        centred};
    const torch::Tensor sum = wide(in.x) + wide(in.y);
    expect_near(residual_norm(kernels_, in),
                centred ? at::layer_norm(sum, {64}, wide(in.weight), {}, 0.5)
                        : at::rms_norm(sum, {64}, wide(in.weight), 0.5),
                3 * rounding_of(types_.element));
  }
}

TEST_P(TwinKernels, EmbedNormPutsPatchesBehindTheOtherTokens) {
  const std::int64_t batch = 3, tokens = 7, width = 96;
  for (const std::int64_t prefix : {0, 1, 5}) {
    SCOPED_TRACE(prefix);
    const torch::Tensor start = torch::randn({tokens, width}), weight = torch::randn({width});
    const torch::Tensor bias = torch::randn({width});
    const torch::Tensor y = torch::randn({batch * (tokens - prefix), width}).to(types_.element);
    torch::Tensor expected = wide(start).expand({batch, -1, -1}).clone();
    expected.narrow(1, prefix, tokens - prefix).add_(wide(y).view({batch, tokens - prefix, width}));
    expected = expected.flatten(0, 1);
    const Embedded out = embed_norm(kernels_, start, y, prefix, weight, bias, types_.residual);
    expect_near(out.x, expected, rounding_of(types_.residual));
    expect_near(out.z, at::layer_norm(expected, {width}, wide(weight), wide(bias), 1e-6),
                3 * rounding_of(types_.element));
  }
}

struct FunctionCase {
  Function function;
  std::function<torch::Tensor(const torch::Tensor&)> expected;
};

std::vector<FunctionCase> functions() {
  return {
      {Function::kGelu, [](const auto& x) { return at::gelu(x); }},
      {Function::kGeluTanh, [](const auto& x) { return at::gelu(x, "tanh"); }},
      {Function::kQuickGelu, [](const auto& x) { return x * at::sigmoid(1.702 * x); }},
      {Function::kSilu, [](const auto& x) { return at::silu(x); }},
  };
}

TEST_P(TwinKernels, ActivationsAreTheExactOnes) {
  const torch::Tensor x =
      torch::cat({torch::linspace(-12, 12, 4000), torch::linspace(-60000, 60000, 8)})
          .view({-1, 24})
          .to(types_.element);
  const torch::Tensor bias = torch::randn({24});
  for (const FunctionCase& one : functions()) {
    expect_near(activation(kernels_, one.function, false, x, bias),
                one.expected(wide(x) + wide(bias)), rounding_of(types_.element) + 1e-6);
    expect_near(activation(kernels_, one.function, false, x, {}), one.expected(wide(x)),
                rounding_of(types_.element) + 1e-6);
  }
}

TEST_P(TwinKernels, GatesMultiplyTheOtherHalf) {
  const torch::Tensor x = (torch::randn({5, 48}) * 3).to(types_.element);
  const torch::Tensor bias = torch::randn({48}), sum = wide(x) + wide(bias);
  for (const FunctionCase& one : functions())
    expect_near(activation(kernels_, one.function, true, x, bias),
                one.expected(sum.slice(1, 0, 24)) * sum.slice(1, 24),
                rounding_of(types_.element) + 1e-5);
}

TEST_P(TwinKernels, RotateTurnsPatchesOfTheFirstHeads) {
  struct Case {
    std::int64_t half, heads, tables;
  };
  for (const Case& one : {Case{32, 4, 1}, {18, 2, 1}, {8, 4, 2}, {5, 1, 1}}) {
    SCOPED_TRACE(one.half);
    const std::int64_t prefix = 2, patches = 5, half = one.half;
    const torch::Tensor x =
        torch::randn({3, prefix + patches, (one.heads + 1) * 2 * half}).to(types_.element);
    const torch::Tensor angles = torch::randn({one.tables, patches, half}) * 3;
    const torch::Tensor sine = angles.sin(), cosine = angles.cos();
    torch::Tensor expected = wide(x);
    for (std::int64_t h = 0; h < one.heads; ++h) {
      const auto of_head = [&](const torch::Tensor& all, std::int64_t which) {
        return all.slice(1, prefix).narrow(2, (2 * h + which) * half, half);
      };
      const torch::Tensor a = of_head(wide(x), 0), b = of_head(wide(x), 1);
      const torch::Tensor s = sine[h % one.tables], c = cosine[h % one.tables];
      of_head(expected, 0).copy_(a * c - b * s);
      of_head(expected, 1).copy_(b * c + a * s);
    }
    expect_near(rotate(kernels_, x, sine, cosine, one.heads), expected,
                rounding_of(types_.element));
  }
}

TEST_P(TwinKernels, PatchesAreWhatThePatchEmbeddingMultiplies) {
  struct Case {
    std::int64_t size, patch, pitch;
  };
  for (const Case& one : {Case{32, 16, 768},
                          {28, 14, 592},
                          {21, 7, 147},
                          {8, 4, 48},
                          {24, 8, 192},
                          {6, 2, 15},
                          {19, 19, 1083}}) {
    SCOPED_TRACE(one.patch);
    const std::int64_t grid = one.size / one.patch, pixels = 3 * one.patch * one.patch;
    const torch::Tensor frames = torch::randint(256, {3, one.size, one.size, 3}, torch::kUInt8);
    const torch::Tensor levels = torch::randn({3, 256});
    std::vector<torch::Tensor> planes;
    for (int channel = 0; channel < 3; ++channel)
      planes.push_back(levels[channel].index({frames.select(3, channel).to(torch::kInt64)}));
    const torch::Tensor expected = torch::stack(planes, 1)
                                       .view({3, 3, grid, one.patch, grid, one.patch})
                                       .permute({0, 2, 4, 1, 3, 5})
                                       .reshape({3 * grid * grid, pixels})
                                       .to(types_.element);
    const torch::Tensor found =
        patches(kernels_, frames, levels, one.patch, one.pitch, types_.element);
    EXPECT_TRUE(found.narrow(1, 0, pixels).equal(expected));
    EXPECT_TRUE((found.narrow(1, pixels, one.pitch - pixels) == 77).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TwinKernels,
                         ::testing::Values(Types{torch::kFloat, torch::kFloat},
                                           Types{torch::kFloat, torch::kBFloat16},
                                           Types{torch::kBFloat16, torch::kBFloat16},
                                           Types{torch::kFloat, torch::kHalf},
                                           Types{torch::kHalf, torch::kHalf}));

// Sums that are not rounded themselves.
class TwinKernelsOfFloatSums : public TwinKernels {};

// A mean far beyond the deviations, where E[x²] − E[x]² would lose everything.
TEST_P(TwinKernelsOfFloatSums, NormAFarMeanExactly) {
  const NormInputs in{torch::randn({3, 384}) + 5000,
                      torch::zeros({3, 384}).to(types_.element),
                      {},
                      {},
                      torch::ones({384}),
                      torch::zeros({384})};
  const torch::Tensor expected = at::layer_norm(wide(in.x), {384}, {}, {}, 1e-6);
  expect_near(residual_norm(kernels_, in), expected, rounding_of(types_.element) + 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, TwinKernelsOfFloatSums,
                         ::testing::Values(Types{torch::kFloat, torch::kFloat},
                                           Types{torch::kFloat, torch::kBFloat16},
                                           Types{torch::kFloat, torch::kHalf}));

TEST(TwinKernels, RefuseWhatTheyCannotCompute) {
  const GpuKernels& kernels = twin_kernels();
  torch::Tensor x = torch::zeros({1, 4096}), out = torch::zeros({1, 4096});
  const auto norm = [&](std::int64_t width, DType residual, DType element) {
    return kernels.residual_norm({x.data_ptr(),
                                  x.data_ptr(),
                                  nullptr,
                                  nullptr,
                                  {floats(x), floats(x), 1e-6f, true},
                                  x.data_ptr(),
                                  out.data_ptr(),
                                  1,
                                  width,
                                  residual,
                                  element},
                                 nullptr);
  };
  EXPECT_EQ(norm(2048, DType::kFp32, DType::kBf16), 0);
  EXPECT_NE(norm(2052, DType::kFp32, DType::kBf16), 0);
  EXPECT_NE(norm(62, DType::kFp32, DType::kBf16), 0);
  EXPECT_NE(norm(64, DType::kFp16, DType::kBf16), 0);
  EXPECT_NE(kernels.activation({x.data_ptr(), floats(x), x.data_ptr(), 1, 12, Function::kSilu,
                                false, DType::kFp32},
                               nullptr),
            0);
  EXPECT_NE(kernels.rotate(
                {x.data_ptr(), floats(x), floats(x), 1, 2, 1, 31, 1, 16, 1, DType::kFp32}, nullptr),
            0);
  const auto* frames = reinterpret_cast<const std::uint8_t*>(x.const_data_ptr());
  const auto cut = [&](std::int64_t size, std::int64_t patch, std::int64_t pitch) {
    return kernels.patches({frames, floats(x), out.data_ptr(), 1, size, patch, pitch, DType::kFp32},
                           nullptr);
  };
  EXPECT_EQ(cut(8, 4, 48), 0);
  EXPECT_NE(cut(9, 4, 48), 0);
  EXPECT_NE(cut(8, 4, 47), 0);
  EXPECT_NE(cut(8, 0, 47), 0);
}

TEST(CudaLibrary, AMissingOneIsNoError) {
  std::string problem;
  EXPECT_EQ(find_in_library("libcoldframe_of_nowhere.so", "anything", problem), nullptr);
  EXPECT_EQ(problem, "this build has none");
  EXPECT_EQ(find_in_library("vit_tests", "anything", problem), nullptr);  // a program
  EXPECT_NE(problem.find("vit_tests"), std::string::npos) << problem;
}

}  // namespace
}  // namespace coldframe::cuda
