// The kernels on a GPU against their CPU twins, bit for bit: both round every step alike.
#include <gtest/gtest.h>

#include "extract/cuda/library.h"
#include "tests/extract/cuda/kernel_calls.h"
#include "tests/extract/cuda/twin.h"
#include "tests/support/gpu_test.h"

namespace coldframe::cuda {
namespace {

class DeviceKernels : public coldframe::testing::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_NE(kernels(), nullptr)
        << "libcoldframe_cuda.so is missing: build with COLDFRAME_CUDA=ON";
    torch::manual_seed(1);
  }

  torch::Tensor there(const torch::Tensor& tensor) const {
    return tensor.defined() ? tensor.to(device_) : tensor;
  }
  void expect_same(const torch::Tensor& found, const torch::Tensor& expected) const {
    EXPECT_TRUE(found.cpu().equal(expected))
        << (found.cpu().to(torch::kFloat64) - expected).abs().max().item<double>();
  }
};

constexpr torch::ScalarType kTypes[] = {torch::kFloat, torch::kBFloat16, torch::kHalf};

TEST_F(DeviceKernels, ResidualNorm) {
  for (const torch::ScalarType element : kTypes)
    for (const torch::ScalarType residual : {torch::kFloat, element})
      for (const std::int64_t width : {60, 384, 768, 1024, 1280, 2048})
        for (const bool plain : {false, true}) {
          const NormInputs in{(torch::randn({1009, width}) * 3 + 2).to(residual),
                              torch::randn({1009, width}).to(element),
                              plain ? torch::Tensor() : torch::randn({width}),
                              plain ? torch::Tensor() : torch::randn({width}),
                              torch::randn({width}),
                              plain ? torch::Tensor() : torch::randn({width}),
                              plain ? 1e-6f : 1e-5f,
                              plain};
          const NormInputs on_device{there(in.x),     there(in.y),      there(in.y_bias),
                                     there(in.gamma), there(in.weight), there(in.bias),
                                     in.epsilon,      in.centred};
          const torch::Tensor z = residual_norm(*kernels(), on_device);
          expect_same(z, residual_norm(twin_kernels(), in));
          expect_same(on_device.x, in.x);
        }
}

TEST_F(DeviceKernels, EmbedNorm) {
  const std::int64_t batch = 5, tokens = 201, prefix = 5, width = 384;
  for (const torch::ScalarType element : kTypes)
    for (const torch::ScalarType residual : {torch::kFloat, element}) {
      const torch::Tensor start = torch::randn({tokens, width}), weight = torch::randn({width});
      const torch::Tensor bias = torch::randn({width});
      const torch::Tensor y = torch::randn({batch * (tokens - prefix), width}).to(element);
      const Embedded found = embed_norm(*kernels(), there(start), there(y), prefix, there(weight),
                                        there(bias), residual);
      const Embedded expected =
          embed_norm(twin_kernels(), start, y, prefix, weight, bias, residual);
      expect_same(found.x, expected.x);
      expect_same(found.z, expected.z);
    }
}

TEST_F(DeviceKernels, Activation) {
  for (const torch::ScalarType element : kTypes)
    for (const Function function :
         {Function::kGelu, Function::kGeluTanh, Function::kQuickGelu, Function::kSilu})
      for (const bool gated : {false, true})
        for (const std::int64_t width : {16, 1536, 3072}) {
          const torch::Tensor x = (torch::randn({1009, width}) * 3).to(element);
          for (const torch::Tensor& bias : {torch::randn({width}), torch::Tensor()})
            expect_same(activation(*kernels(), function, gated, there(x), there(bias)),
                        activation(twin_kernels(), function, gated, x, bias));
        }
}

TEST_F(DeviceKernels, Rotate) {
  for (const torch::ScalarType element : kTypes)
    for (const std::int64_t half : {5, 18, 32})
      for (const std::int64_t tables : {1, 6}) {
        const torch::Tensor x = torch::randn({5, 201, 18 * 2 * half}).to(element);
        const torch::Tensor angles = torch::randn({tables, 196, half});
        const torch::Tensor sine = angles.sin(), cosine = angles.cos();
        expect_same(rotate(*kernels(), there(x), there(sine), there(cosine), 12),
                    rotate(twin_kernels(), x, sine, cosine, 12));
      }
}

TEST_F(DeviceKernels, Patches) {
  struct Case {
    std::int64_t size, patch, pitch;
  };
  for (const torch::ScalarType element : kTypes)
    for (const Case& one :
         {Case{224, 16, 768}, {392, 14, 592}, {21, 7, 147}, {24, 8, 192}, {37, 37, 4107}}) {
      const torch::Tensor frames = torch::randint(256, {5, one.size, one.size, 3}, torch::kUInt8);
      const torch::Tensor levels = torch::randn({3, 256});
      expect_same(patches(*kernels(), there(frames), there(levels), one.patch, one.pitch, element),
                  patches(twin_kernels(), frames, levels, one.patch, one.pitch, element));
    }
}

}  // namespace
}  // namespace coldframe::cuda
