#include "tests/extract/cuda/twin.h"

#include <algorithm>

#include "extract/cuda/dispatch.h"

namespace coldframe::cuda {
namespace {

// All lanes of a row in turn; sums in the order in which the warp's shuffles add.
struct AllLanes {
  static constexpr int kHeld = kLanes;

  int lane(int held) const { return held; }
  float sum(const float (&partial)[kLanes]) const {
    float now[kLanes], next[kLanes];
    std::copy(partial, partial + kLanes, now);
    for (int step = kLanes / 2; step > 0; step /= 2) {
      for (int i = 0; i < kLanes; ++i) next[i] = now[i] + now[i ^ step];
      std::copy(next, next + kLanes, now);
    }
    return now[0];
  }
};

template <typename Arguments>
int run_norm(const Arguments& a, std::int64_t rows) {
  return with_residual(a.residual, a.element, [&](auto residual, auto element) {
    return with_steps(a.width, [&](auto steps) {
      for (std::int64_t row = 0; row < rows; ++row)
        norm_row<decltype(steps)::value>(
            AllLanes(),
            row_of<typename decltype(residual)::type, typename decltype(element)::type>(a, row),
            static_cast<int>(a.width));
      return 0;
    });
  });
}

int residual_norm(const ResidualNormArguments& arguments, void*) {
  return run_norm(arguments, arguments.rows);
}

int embed_norm(const EmbedNormArguments& arguments, void*) {
  return run_norm(arguments, arguments.batch * arguments.tokens);
}

int activation(const ActivationArguments& a, void*) {
  if (a.width % kActivationVector != 0) return kInvalidValue;
  const std::int64_t stride = a.gated ? 2 * a.width : a.width;
  return with_element(a.element, [&](auto element) {
    using Element = typename decltype(element)::type;
    return with_function(a.function, [&](auto function) {
      for (std::int64_t row = 0; row < a.rows; ++row)
        for (std::int64_t column = 0; column < a.width; column += kActivationVector) {
          const Element* const x = static_cast<const Element*>(a.x) + row * stride + column;
          activate_vector<typename decltype(function)::type>(
              x, bias_at(a.bias, column), a.gated ? x + a.width : nullptr,
              bias_at(a.gated ? a.bias : nullptr, a.width + column),
              static_cast<Element*>(a.out) + row * a.width + column);
        }
      return 0;
    });
  });
}

int rotate(const RotateArguments& a, void*) {
  return with_run(a, [&](auto run, std::int64_t pairs) {
    return with_element(a.element, [&](auto element) {
      constexpr int kRun = decltype(run)::value;
      for (std::uint32_t i = 0; i < pairs / kRun; ++i)
        rotate_run<kRun, typename decltype(element)::type>(a, i);
      return 0;
    });
  });
}

int patches(const PatchArguments& a, void*) {
  return with_run(a, [&](auto run) {
    return with_element(a.element, [&](auto element) {
      constexpr int kRun = decltype(run)::value;
      const auto runs = static_cast<std::uint32_t>(a.batch * a.size * a.size / kRun);
      for (std::uint32_t i = 0; i < runs; ++i)
        patch_run<kRun, typename decltype(element)::type>(a, a.levels, i);
      return 0;
    });
  });
}

}  // namespace

const GpuKernels& twin_kernels() {
  static constexpr GpuKernels kTwins{patches, embed_norm, residual_norm, activation, rotate};
  return kTwins;
}

}  // namespace coldframe::cuda
