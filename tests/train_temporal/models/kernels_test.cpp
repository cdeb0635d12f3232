// Every instruction set gives the bits of the plain loops, and those are what they say.
#include "train_temporal/models/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

std::vector<float> noise(std::int64_t count, std::uint64_t seed, double scale = 1) {
  CounterRandom random({seed});
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(scale * (static_cast<double>(random.next() >> 11) * 0x1p-52 - 1.0));
  }
  return values;
}

class EveryKernel : public ::testing::TestWithParam<const SequenceKernels*> {
 protected:
  const SequenceKernels& ours() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(SequenceKernels, EveryKernel,
                         ::testing::ValuesIn(all_kernels().begin(), all_kernels().end()),
                         [](const auto& set) { return set.param->name; });

// 16 bits of each 64 decide on a value, the lowest first.
TEST_P(EveryKernel, DropsWhatTheBitsSay) {
  for (const std::int64_t n : {1, 3, 31, 32, 33, 64, 130}) {
    for (const int threshold : {0, 1, 19661, 40000, 65535}) {
      std::vector<float> kept(static_cast<std::size_t>(n)), expected;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t bits = mix_bits(77 + static_cast<std::uint64_t>(i - i % 4));
        const auto own = static_cast<int>((bits >> (16 * (i % 4))) & 0xffff);
        expected.push_back(own >= threshold ? 1.5f : 0.0f);
      }
      ours().drop(n, {77, static_cast<std::uint16_t>(threshold), 1.5f}, kept.data());
      EXPECT_EQ(kept, expected) << n << " " << threshold;
    }
  }
}

TEST_P(EveryKernel, AddsTheNoiseThatTheBitsChoose) {
  const float* quantile = normal_quantiles();
  for (const std::int64_t n : {1, 3, 4, 31, 64, 130}) {
    std::vector<float> x = noise(n, 3), expected = x;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t bits = mix_bits(77 + static_cast<std::uint64_t>(i - i % 4));
      expected[static_cast<std::size_t>(i)] += 0.7f * quantile[(bits >> (16 * (i % 4))) & 0xfff];
    }
    ours().add_noise(n, {77, 0.7f}, x.data());
    EXPECT_EQ(x, expected) << n;
  }
}

TEST(NormalQuantiles, AreThoseOfTheStandardNormalDistribution) {
  const float* quantile = normal_quantiles();
  double squares = 0;
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    const auto z = static_cast<double>(quantile[i]);
    EXPECT_NEAR(0.5 * std::erfc(-z / std::sqrt(2.0)), (double(i) + 0.5) / double(kQuantiles), 1e-7);
    EXPECT_EQ(quantile[i], -quantile[kQuantiles - 1 - i]);
    squares += z * z;
  }
  EXPECT_NEAR(squares / double(kQuantiles), 1, 1e-3);
}

// Sizes around the tiles' edges: rows 4 and 8, columns 3, 24 and 48, terms 128.
TEST_P(EveryKernel, MultipliesAsInDoubleAndToTheSameBits) {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {3, 2, 5},     {8, 48, 16},    {9, 49, 17},
                                   {7, 47, 127}, {17, 25, 129}, {16, 128, 200}, {5, 130, 3}};
  for (const auto& [m, n, k] : sizes) {
    const auto a = noise(m * k, 1), b = noise(k * n, 2), bias = noise(n, 3),
               before = noise(m * n, 4);
    for (const bool transposed : {false, true}) {
      for (const auto start :
           {Product::Start::kZero, Product::Start::kBias, Product::Start::kAccumulate}) {
        const auto result = [&](const SequenceKernels& kernels) {
          std::vector<float> c = before;
          kernels.multiply({m, n, k, a.data(), transposed ? m : k, transposed, b.data(), n,
                            c.data(), n, start, bias.data()});
          return c;
        };
        const auto c = result(ours());
        EXPECT_EQ(c, result(plain_kernels())) << m << " " << n << " " << k;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<std::size_t>(i * n + j);
            double sum = start == Product::Start::kBias
                             ? static_cast<double>(bias[static_cast<std::size_t>(j)])
                             : 0.0;
            if (start == Product::Start::kAccumulate) sum = static_cast<double>(before[at]);
            for (std::int64_t l = 0; l < k; ++l) {
              const auto term = static_cast<std::size_t>(transposed ? l * m + i : i * k + l);
              sum += static_cast<double>(a[term]) *
                     static_cast<double>(b[static_cast<std::size_t>(l * n + j)]);
            }
            ASSERT_NEAR(static_cast<double>(c[at]), sum, 1e-5 * std::sqrt(double(k)));
          }
        }
      }
    }
  }
}

TEST_P(EveryKernel, LeavesWhatLiesBesideAProductAlone) {
  const auto a = noise(4 * 3, 1), b = noise(3 * 7, 2);
  std::vector<float> c(4 * 10, 5.0f);
  ours().multiply({4, 5, 3, a.data(), 3, false, b.data(), 7, c.data(), 10, Product::Start::kZero});
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(c[i] == 5.0f, i % 10 >= 5) << i;
}

TEST_P(EveryKernel, HasSigmoidAndTanhWithinAFewRoundings) {
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i) x.push_back(static_cast<float>(i) * 0.003f);
  for (float size : {1e-30f, 1e-10f, 1e-6f, 1e-3f, 1e4f, INFINITY}) {
    x.push_back(size);
    x.push_back(-size);
  }
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> sigmoid(x.size()), tanh(x.size());
  ours().sigmoid(n, x.data(), sigmoid.data());
  ours().tanh(n, x.data(), tanh.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto exact = static_cast<double>(x[i]);
    ASSERT_NEAR(static_cast<double>(sigmoid[i]), 1 / (1 + std::exp(-exact)), 1.2e-7) << x[i];
    ASSERT_NEAR(static_cast<double>(tanh[i]), std::tanh(exact),
                std::min(1.8e-7, 4e-7 * std::abs(std::tanh(exact))))
        << x[i];
  }
  std::vector<float> plain(x.size());
  plain_kernels().sigmoid(n, x.data(), plain.data());
  EXPECT_EQ(sigmoid, plain);
  plain_kernels().tanh(n, x.data(), plain.data());
  EXPECT_EQ(tanh, plain);
}

TEST_P(EveryKernel, PassesNotANumberOn) {
  const float x = NAN;
  float y = 0;
  ours().sigmoid(1, &x, &y);
  EXPECT_TRUE(std::isnan(y));
  y = 0;
  ours().tanh(1, &x, &y);
  EXPECT_TRUE(std::isnan(y));
}

// Every binary16 that is finite: value by its definition.
TEST_P(EveryKernel, GathersRowsOfHalvesStandardised) {
  constexpr std::int64_t kWidth = 1024 + 7, kApart = kWidth + 3;
  std::vector<std::uint16_t> table;
  for (int i = 0; i < 65536; ++i) {
    const bool finite = ((i >> 10) & 31) != 31;
    table.push_back(static_cast<std::uint16_t>(finite ? i : 0));
  }
  const std::vector<std::int64_t> rows = {62, 0, 31, 30};
  const auto mean = noise(kWidth, 1), scale = noise(kWidth, 2);
  std::vector<float> out(rows.size() * kApart, 9);
  ours().gather_half({rows, kWidth, mean.data(), scale.data(), out.data(), kApart}, table.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t column = i % kApart;
    if (column >= kWidth) {
      ASSERT_EQ(out[i], 9) << i;
      continue;
    }
    const int half = table[static_cast<std::size_t>(rows[i / kApart]) * kWidth + column];
    const int exponent = (half >> 10) & 31, fraction = half & 1023;
    float value = std::ldexp(static_cast<float>(exponent > 0 ? fraction + 1024 : fraction),
                             std::max(exponent, 1) - 25);
    if (half >= 32768) value = -value;
    ASSERT_EQ(out[i], (value - mean[column]) * scale[column]) << i;
  }
}

TEST_P(EveryKernel, GivesThePlainBitsEverywhereElse) {
  constexpr std::int64_t kRows = 3, kHidden = 21, kCount = kRows * kHidden;
  const auto run = [&](const SequenceKernels& k) {
    std::vector<float> all;
    const auto keep = [&](const std::vector<float>& values) {
      all.insert(all.end(), values.begin(), values.end());
    };
    const auto input = noise(3 * kCount, 1, 4), recurrent = noise(3 * kCount, 2, 4);
    std::vector<float> state = noise(kCount, 3), previous(kCount), gates(4 * kCount), out(kCount);
    k.gates({kRows, kHidden, input.data(), recurrent.data(), 3 * kHidden, state.data(),
             previous.data(), gates.data(), out.data(), kHidden});
    std::vector<float> d_state = noise(kCount, 4), d_input(3 * kCount), d_recurrent(3 * kCount);
    const auto d_out = noise(kCount, 5);
    k.gate_gradients({kRows, kHidden, gates.data(), previous.data(), d_out.data(), kHidden,
                      d_state.data(), d_input.data(), d_recurrent.data()});
    for (const auto* part : {&state, &previous, &gates, &out, &d_state, &d_input, &d_recurrent}) {
      keep(*part);
    }
    std::vector<float> sum = noise(kHidden, 6);
    k.add_rows(kRows, kHidden, input.data(), 3 * kHidden, sum.data());
    keep(sum);
    std::vector<float> x = noise(99, 7), y = noise(99, 8), z = noise(99, 9);
    k.scale(99, x.data(), y.data());
    k.add_scaled(99, 0.3f, x.data(), y.data());
    const std::vector<float*> parts = {y.data(), x.data(), z.data()};
    const double squares = k.add_all(99, parts);
    keep({k.dot(99, x.data(), y.data()), static_cast<float>(squares)});
    const auto gradient = noise(99, 10), decay = noise(99, 11);
    for (float& value : z) value = std::abs(value);
    k.adam({99, x.data(), y.data(), z.data(), gradient.data(), decay.data(), 0.5f, 1e-3f, 2e-3f,
            3.0f, 0.1f, 0.999f, 0.001f, 1e-8f});
    keep(x);
    keep(y);
    keep(z);
    std::vector<float> turned(kCount);
    k.transpose(kRows, kHidden, input.data(), turned.data(), kRows);
    keep(turned);
    return all;
  };
  const auto all = run(ours()), plain = run(plain_kernels());
  EXPECT_EQ(all, plain);
}

}  // namespace
}  // namespace coldframe::temporal
