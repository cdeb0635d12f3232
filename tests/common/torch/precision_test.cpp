#include "common/torch/precision.h"

#include <gtest/gtest.h>

#include "common/cli/error.h"

namespace coldframe {
namespace {

const torch::Device kCpu(torch::kCPU);

TEST(Precision, WordsAndTypesAgree) {
  for (const char* word : {"fp32", "bf16", "fp16"}) {
    EXPECT_EQ(to_string(parse_precision(word, kCpu)), word);
  }
  EXPECT_EQ(parse_precision("auto", kCpu), Precision::kFp32);
  EXPECT_EQ(scalar_type(Precision::kFp32), torch::kFloat32);
  EXPECT_EQ(scalar_type(Precision::kBf16), torch::kBFloat16);
  EXPECT_EQ(scalar_type(Precision::kFp16), torch::kHalf);
  for (const char* word : {"", "float", "FP32", "int8"}) {
    EXPECT_THROW(parse_precision(word, kCpu), ConfigError) << word;
  }
}

// fp16 on the CPU is offered because LibTorch computes a ViT's operations in it.
TEST(Precision, EveryPrecisionComputesTheOperationsOfAVitOnTheCpu) {
  torch::NoGradGuard no_gradients;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    const auto type = scalar_type(precision);
    const auto image = torch::linspace(-1, 1, 3 * 8 * 8).view({1, 3, 8, 8}).to(type);
    const auto patches = torch::conv2d(image, torch::full({16, 3, 4, 4}, 0.02).to(type), {}, 4);
    auto x = patches.flatten(2).transpose(1, 2);
    x = torch::layer_norm(x, {16}, torch::ones(16).to(type), torch::zeros(16).to(type), 1e-6);
    x = torch::linear(x, torch::full({16, 16}, 0.1).to(type), torch::ones(16).to(type));
    x = torch::gelu(torch::softmax(torch::matmul(x, x.transpose(1, 2)), -1).matmul(x));
    const auto q = x.view({1, 1, 4, 16});
    x = at::scaled_dot_product_attention(q, q, q);
    EXPECT_EQ(x.scalar_type(), type);
    EXPECT_TRUE(torch::isfinite(x.to(torch::kFloat32)).all().item<bool>()) << to_string(precision);
  }
}

}  // namespace
}  // namespace coldframe
