#include "extract/vit/cpu/attention.h"

#include <cmath>
#include <numbers>

#include "extract/vit/cpu/packed_linear.h"
#include "extract/vit/cpu/tiles.h"

namespace coldframe::vit::cpu {

namespace {

constexpr std::int64_t kQueryRows = 48;

void add_rows(const float* from, std::int64_t rows, std::int64_t columns, float* to,
              std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row, from += columns, to += stride)
    for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
}

Word* words_of(const torch::Tensor& tensor) {
  return static_cast<Word*>(tensor.data_ptr());
}

}  // namespace

AttentionScratch::AttentionScratch(const Kernels& kernels, std::int64_t tokens,
                                   std::int64_t head_width)
    : padded_(round_up(tokens, kernels.columns)) {
  const std::int64_t per_word = elements_per_word(kernels.element);
  const std::int64_t head_columns = round_up(head_width, kernels.columns);
  keys_ = torch::empty({padded_, head_width / per_word}, torch::kInt32);
  values_ = torch::empty({round_up(tokens, per_word) / per_word, head_columns}, torch::kInt32);
  scores_ = torch::empty({kQueryRows, padded_}, torch::kFloat32);
  probabilities_ = kernels.element == DType::kFp32
                       ? scores_
                       : torch::empty({kQueryRows, padded_}, scalar_type(kernels.element));
  sums_ = torch::empty({kQueryRows, head_columns}, torch::kFloat32);
}

void attend(const Kernels& kernels, const Head& head, AttentionScratch& scratch) {
  const std::int64_t tokens = head.tokens, head_width = head.width, width = head.row;
  const std::int64_t bytes = kernels.element_bytes();
  const std::int64_t per_word = elements_per_word(kernels.element);
  const std::int64_t head_words = head_width / per_word;
  const std::int64_t token_words = round_up(tokens, per_word) / per_word;
  const std::int64_t stride = 3 * width, stride_words = stride / per_word;
  const std::int64_t columns = kernels.columns, padded = scratch.padded_;
  const float factor = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(head_width));
  const auto* queries = static_cast<const char*>(head.qkv);
  const auto* query_words = static_cast<const Word*>(head.qkv);
  Word* const keys = words_of(scratch.keys_);
  Word* const values = words_of(scratch.values_);
  Word* const weights = words_of(scratch.probabilities_);
  float* const scores = scratch.scores_.data_ptr<float>();
  float* const sums = scratch.sums_.data_ptr<float>();
  kernels.pack_transposed(reinterpret_cast<const Word*>(queries + width * bytes), stride_words,
                          tokens, head_words, keys);
  kernels.pack(queries + 2 * width * bytes, stride, tokens, head_width, values);

  float inverse_sums[kQueryRows];
  for (std::int64_t first = 0; first < tokens; first += kQueryRows) {
    const std::int64_t rows = std::min(kQueryRows, tokens - first);
    for (std::int64_t key = 0; key < padded; key += columns)
      for_each_tile(kernels, 0, rows, [&](std::int64_t row, std::int64_t count) {
        kernels.multiply(
            count, {query_words + (first + row) * stride_words, stride_words,
                    keys + key * head_words, head_words, scores + row * padded + key, padded});
      });
    if (head.bias) add_rows(head.bias + first * tokens, rows, tokens, scores, padded);
    kernels.softmax(scores, padded, rows, tokens, factor, weights, inverse_sums);
    for (std::int64_t column = 0; column < head_width; column += columns)
      for_each_tile(kernels, 0, rows, [&](std::int64_t row, std::int64_t count) {
        kernels.multiply(count, {weights + row * (padded / per_word), padded / per_word,
                                 values + column * token_words, token_words, sums, columns});
        kernels.scale(
            {sums, columns, count, std::min(columns, head_width - column), inverse_sums + row,
             static_cast<char*>(head.out) + ((first + row) * width + column) * bytes, width});
      });
  }
}

}  // namespace coldframe::vit::cpu
