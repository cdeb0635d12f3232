// Pools a ViT's tokens into the features of an image or clip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/text/spelling.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

enum class Pooling { kCls, kMean, kClsMean, kRegisterMean, kPrefixMean, kMap, kNone, kTime };
inline const WordTable<Pooling> kPoolings{{"cls", Pooling::kCls},
                                          {"mean", Pooling::kMean},
                                          {"cls+mean", Pooling::kClsMean},
                                          {"register-mean", Pooling::kRegisterMean},
                                          {"prefix-mean", Pooling::kPrefixMean},
                                          {"map", Pooling::kMap},
                                          {"none", Pooling::kNone},
                                          {"time", Pooling::kTime}};
Pooling parse_pooling(const std::string& word);
std::string to_string(Pooling pooling);
std::string list_poolings();  // for display: every word with its meaning

struct FeatureOptions {
  Pooling pooling = Pooling::kCls;
  // 1-based, ascending blocks whose outputs are each normalised by the last norm, pooled, and
  // concatenated, as in DINO's linear probing (facebookresearch/dino, eval_linear.py and
  // get_intermediate_layers); empty: only the last block.
  std::vector<std::int64_t> layers{};
  // After pooling, CLIP's projection to the joint image-text space.
  bool projection = false;
  // The 0-based block whose input is kept after the features (layer split). 0: none; block 0's
  // input is cheap to recompute.
  std::int64_t cut = 0;
};

// "9,10,11,12"; ConfigError unless they are ascending integers >= 1.
std::vector<std::int64_t> parse_layers(const std::string& text);
// ConfigError likewise; `text`: the list as given.
void require_layers(const std::vector<std::int64_t>& layers, const std::string& text);

// The 1-based blocks whose outputs form the features.
std::vector<std::int64_t> layers_of(const FeatureOptions& options,
                                    const Architecture& architecture);

bool of_last_block_alone(const FeatureOptions& options, const Architecture& architecture);

// kCls and kClsMean have the class token as first feature.
bool takes_class_token(Pooling pooling);

// Tokens [begin, end).
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};
// Those whose means are features of an image or clip of `patches` patches: one range, for kTime one
// for each of `steps` steps, or none if the pooling has no mean.
std::vector<TokenRange> averaged_tokens(Pooling pooling, const Architecture& architecture,
                                        std::int64_t patches, std::int64_t steps = 1);

// The number of features pooled from one block's tokens, for images or clips of `patches` patches;
// for kTime, of each step.
std::int64_t pooled_features(Pooling pooling, const Architecture& architecture,
                             std::int64_t patches);

// ConfigError for tokens, blocks or combinations that the architecture does not have.
void check_features(const FeatureOptions& options, const Architecture& architecture);

}  // namespace coldframe::vit
