// Pooling makes the features of an image of a ViT's tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/text/spelling.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

enum class Pooling { kCls, kMean, kClsMean, kRegisterMean, kPrefixMean, kMap, kNone };
inline const WordTable<Pooling> kPoolings{{"cls", Pooling::kCls},
                                          {"mean", Pooling::kMean},
                                          {"cls+mean", Pooling::kClsMean},
                                          {"register-mean", Pooling::kRegisterMean},
                                          {"prefix-mean", Pooling::kPrefixMean},
                                          {"map", Pooling::kMap},
                                          {"none", Pooling::kNone}};
Pooling parse_pooling(const std::string& word);
std::string to_string(Pooling pooling);
std::string list_poolings();  // for people: every word, with what it means

struct FeatureOptions {
  Pooling pooling = Pooling::kCls;
  // Blocks, counted from 1 and rising, whose outputs are each normalised by the last norm, pooled,
  // and put side by side, as DINO's linear probing does (facebookresearch/dino, eval_linear.py and
  // get_intermediate_layers); empty: the last block alone.
  std::vector<std::int64_t> layers{};
  // Behind pooling, the projection to the space that a CLIP's images share with its texts.
  bool projection = false;
  // A block, counted from 0, whose input is kept behind the features. 0: none; the input of block 0
  // is cheap to recompute.
  std::int64_t cut = 0;
};

// "9,10,11,12"; ConfigError unless they are whole numbers from 1 that rise.
std::vector<std::int64_t> parse_layers(const std::string& text);
// ConfigError likewise; `text` is the list as it was given.
void require_layers(const std::vector<std::int64_t>& layers, const std::string& text);

// The blocks of which features are made, counted from 1.
std::vector<std::int64_t> layers_of(const FeatureOptions& options,
                                    const Architecture& architecture);

bool of_last_block_alone(const FeatureOptions& options, const Architecture& architecture);

// The class token is the first feature of kCls and of kClsMean.
bool takes_class_token(Pooling pooling);

// The tokens, from `begin` to before `end`, whose mean is a feature of an image of `patches`
// patches; nothing where pooling takes none.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};
std::optional<TokenRange> averaged_tokens(Pooling pooling, const Architecture& architecture,
                                          std::int64_t patches);

// The features that pooling makes of the tokens of one block, of images of `patches` patches.
std::int64_t pooled_features(Pooling pooling, const Architecture& architecture,
                             std::int64_t patches);

// ConfigError for tokens, blocks or combinations that the architecture does not have.
void check_features(const FeatureOptions& options, const Architecture& architecture);

}  // namespace coldframe::vit
