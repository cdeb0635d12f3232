// The inner loops of the CPU engine, once per instruction set. All sets compute the same sums; they
// differ in the order of summation and so in the last bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/numbers/dtype.h"

namespace coldframe::vit::cpu {

constexpr std::int64_t round_up(std::int64_t number, std::int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// Operands are read in words of 32 bits along the summed dimension: one float, or two bf16 or
// fp16 numbers of which the first is in the low half.
using Word = std::uint32_t;

constexpr std::int64_t elements_per_word(DType element) {
  return element == DType::kFp32 ? 1 : 2;
}

// The kernels tell them apart: float, a bf16 number's bits, an fp16 number's bits.
enum class Half : std::uint16_t {};
constexpr DType element_of(const float*) {
  return DType::kFp32;
}
constexpr DType element_of(const std::uint16_t*) {
  return DType::kBf16;
}
constexpr DType element_of(const Half*) {
  return DType::kFp16;
}

// A tile of float results and where it goes.
struct Tile {
  const float* sums;
  std::int64_t stride;  // floats from row to row of `sums`
  std::int64_t rows, columns;
  const float* bias;  // [columns]; `sums` and it are filled up to whole vectors
  void* out;
  std::int64_t out_stride;     // elements from row to row of `out`
  std::int64_t first_row = 0;  // those before it are done
};

using Epilogue = void (*)(const Tile& tile);

// The end of a product, which may come with the next one. Null: nothing.
struct Pending {
  void finish_until(std::int64_t row) {
    if (!finish) return;
    tile.rows = row;
    finish(tile);
    tile.first_row = row;
  }
  void finish_all() { finish_until(rows); }

  Epilogue finish = nullptr;
  std::int64_t rows = 0;
  Tile tile = {};
};

// sums [rows, columns] = a [rows, words] · panel [words, columns]. Strides are in words and floats.
struct LinearProduct {
  const Word* a;
  std::int64_t a_stride;
  const Word* panel;
  std::int64_t words;
  float* sums;
  std::int64_t sums_stride;
  // The end of the product before, which has sums of its own; null: none. It goes first, or between
  // the instructions of this product where they leave room for it.
  Pending* before = nullptr;
  // The next words wanted come into the second-level cache meanwhile, so many of them for each word
  // of a row.
  const Word* ahead = nullptr;
  std::int64_t ahead_step = 0;
};

// Ends of an MLP's first product, with an activation f.
struct ActivationKernels {
  Epilogue alone;  // out (elements) = f(sums + bias)
  // out (elements) = f(gates) · values, both with their bias. The left half of a panel's columns
  // gives gates and the right one values, and tile.columns counts those of one.
  Epilogue gate;
};

// LayerNorm(x) · weight + bias, each [width].
struct NormFactors {
  const float *weight, *bias;
  float epsilon;
  bool centred;  // false: RMSNorm
};

// Sines and cosines of angles, [rows, half].
struct Turn {
  const float *sine, *cosine;
};

struct Kernels {
  std::int64_t element_bytes() const { return element == DType::kFp32 ? 4 : 2; }

  std::string name;
  // The operands of products are stored as kFp32, kBf16 or kFp16. Sums, residuals and norms are
  // float always.
  DType element;
  std::int64_t rows;  // of a product at most
  std::int64_t
      columns;  // of a product: the width of the panels that the right operand is packed in
  std::int64_t row_unit = 1;  // fewer rows of a product take as long

  // Before and after a thread's products; null: nothing. See ProductState.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  void (*multiply)(std::int64_t rows, const LinearProduct& product);

  Epilogue store;  // out (elements) = sums + bias
  Epilogue add;    // out (floats) += sums + bias
  Epilogue scale;  // out (elements) = sums[r] · bias[r]: one factor per row
  ActivationKernels gelu, gelu_tanh, quick_gelu, silu;

  // out (elements) [rows, width] = the norm of x [rows, width]
  void (*norm)(const float* x, std::int64_t rows, std::int64_t width, const NormFactors& factors,
               void* out);
  // x (elements) [rows, width] = its norm. Rows are `stride` elements apart.
  void (*norm_in_place)(void* x, std::int64_t stride, std::int64_t rows, std::int64_t width,
                        const NormFactors& factors);
  // Turns pairs (a, b) of numbers i and i + half of x (elements) [rows, 2 · half]: a becomes
  // a·cos − b·sin of `first`, b becomes b·cos + a·sin of `second`. Rows of x are `stride` elements
  // apart.
  void (*rotate)(void* x, std::int64_t stride, std::int64_t rows, std::int64_t half, Turn first,
                 Turn second);
  // Elements e^(factor·(s − max)) of each row's first `count` scores, zeros up to the last
  // word's end; the inverse of their sum in inverse_sums[row].
  // Rows of scores are `stride` floats apart, rows of `out` `stride` elements, and both reach as
  // far; `out` may be `scores`.
  void (*softmax)(const float* scores, std::int64_t stride, std::int64_t rows, std::int64_t count,
                  float factor, void* out, float* inverse_sums);
  // out (elements) = in, for the patches' pixels
  void (*convert)(const float* in, std::int64_t count, void* out);
  // Panels of the transpose of `in` (elements) [count, words]: [⌈count / columns⌉][words][columns],
  // filled up with zeros. The stride is in words.
  void (*pack_transposed)(const Word* in, std::int64_t stride, std::int64_t count,
                          std::int64_t words, Word* out);
  // Panels of `in` (elements) [count, width]: [⌈width / columns⌉][words of count][columns], filled
  // up with zeros. The stride is in elements.
  void (*pack)(const void* in, std::int64_t stride, std::int64_t count, std::int64_t width,
               Word* out);
};

// Held by a thread around products, and around nothing that waits for other threads.
class ProductState {
 public:
  explicit ProductState(const Kernels& kernels) : end_(kernels.end) {
    if (kernels.begin) kernels.begin();
  }
  ~ProductState() {
    if (end_) end_();
  }
  ProductState(const ProductState&) = delete;
  ProductState& operator=(const ProductState&) = delete;

 private:
  void (*end_)();
};

// Null where the processor lacks the instructions.
const Kernels* avx2_kernels();         // float
const Kernels* avx512_kernels();       // float
const Kernels* avx512_bf16_kernels();  // bf16, multiplied in pairs by VDPBF16PS
const Kernels* avx512_fp16_kernels();  // fp16, multiplied and in part added up in fp16
const Kernels* amx_bf16_kernels();     // bf16, multiplied in tiles; null, too, if Linux refuses
// Those of AMX but for the products, whose tiles are computed in plain C++, for tests: to the bit,
// and very slowly.
const Kernels* plain_tile_kernels();

// All that this processor has instructions for, the plain ones left out.
std::vector<const Kernels*> available_kernels();
const Kernels* fastest_fp32_kernels();  // null without AVX2: LibTorch's operators are quicker there

}  // namespace coldframe::vit::cpu
