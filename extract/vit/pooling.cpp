#include "extract/vit/pooling.h"

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

Pooling parse_pooling(const std::string& word) {
  return choice("pool", word, kPoolings);
}

std::string to_string(Pooling pooling) {
  return word_for(kPoolings, pooling);
}

std::string list_poolings() {
  const auto meaning = [](Pooling pooling) {
    switch (pooling) {
      case Pooling::kCls:
      case Pooling::kClsMean:
      case Pooling::kRegisterMean:
        break;
      case Pooling::kMean:
        return " (of the patches)";
      case Pooling::kPrefixMean:
        return " (of class token and registers, as a distilled DeiT has it)";
      case Pooling::kMap:
        return " (SigLIP's attention pooling, V-JEPA's attentive pooler)";
      case Pooling::kNone:
        return " (every token of the frame, one after the other)";
      case Pooling::kTime:
        return " (of the patches of each step of a clip: a feature for every step)";
    }
    return "";
  };
  std::vector<std::string> words;
  for (const auto& [word, pooling] : kPoolings) words.push_back(concat(word, meaning(pooling)));
  return join(words, ", ");
}

void require_layers(const std::vector<std::int64_t>& layers, const std::string& text) {
  std::int64_t before = 0;
  for (const std::int64_t layer : layers) {
    if (layer <= before)
      throw ConfigError(concat("--layers '", text,
                               "': expected numbers of blocks from 1 that rise,",
                               " such as 9,10,11,12"));
    before = layer;
  }
}

std::vector<std::int64_t> parse_layers(const std::string& text) {
  std::vector<std::int64_t> layers;
  for (const std::string& word : split(text, ','))
    if (!parse_int(trim(word), layers.emplace_back())) layers.back() = 0;  // no block's number
  require_layers(layers, text);
  return layers;
}

std::vector<std::int64_t> layers_of(const FeatureOptions& options,
                                    const Architecture& architecture) {
  return options.layers.empty() ? std::vector{architecture.depth} : options.layers;
}

bool of_last_block_alone(const FeatureOptions& options, const Architecture& architecture) {
  return layers_of(options, architecture) == std::vector{architecture.depth};
}

bool takes_class_token(Pooling pooling) {
  return pooling == Pooling::kCls || pooling == Pooling::kClsMean;
}

std::vector<TokenRange> averaged_tokens(Pooling pooling, const Architecture& architecture,
                                        std::int64_t patches, std::int64_t steps) {
  const std::int64_t prefix = architecture.prefix_tokens(), of_step = patches / steps;
  if (pooling == Pooling::kMean || pooling == Pooling::kClsMean)
    return {{prefix, prefix + patches}};
  if (pooling == Pooling::kRegisterMean) return {{prefix - architecture.registers, prefix}};
  if (pooling == Pooling::kPrefixMean) return {{0, prefix}};
  std::vector<TokenRange> ranges;
  for (std::int64_t step = 0; pooling == Pooling::kTime && step < steps; ++step)
    ranges.push_back({prefix + step * of_step, prefix + (step + 1) * of_step});
  return ranges;
}

std::int64_t pooled_features(Pooling pooling, const Architecture& architecture,
                             std::int64_t patches) {
  if (pooling == Pooling::kClsMean) return 2 * architecture.width;
  if (pooling == Pooling::kNone)
    return (architecture.prefix_tokens() + patches) * architecture.width;
  return architecture.width;
}

void check_features(const FeatureOptions& options, const Architecture& architecture) {
  const Pooling pooling = options.pooling;
  const auto refuse = [&](const char* why) {
    throw ConfigError(concat("--pool ", to_string(pooling), " ", why));
  };
  if (pooling == Pooling::kMap && !architecture.attention_pool)
    refuse(
        "needs an attention pooling (SigLIP, V-JEPA), which this backbone lacks; use --pool mean "
        "or cls");
  if (takes_class_token(pooling) && !architecture.class_token)
    refuse("needs a class token, which this backbone lacks; use --pool mean");
  if (pooling == Pooling::kRegisterMean && architecture.registers == 0)
    refuse("needs registers, which this backbone lacks; use --pool mean or cls");
  if (pooling == Pooling::kTime && !architecture.takes_clips())
    refuse("needs the steps of clips, and this backbone takes images; use --pool mean");
  if (pooling == Pooling::kTime && options.layers.size() > 1)
    refuse("takes the tokens of one block; name one with --layers, or none");
  if (options.cut > 0 && architecture.takes_clips())
    throw ConfigError(concat("--cut ", options.cut,
                             ": the tokens of clips are not stored; leave it out, or take a "
                             "backbone of images"));
  if (pooling == Pooling::kPrefixMean && architecture.prefix_tokens() == 0)
    refuse("needs a class token or registers, which this backbone lacks; use --pool mean");
  if (!options.layers.empty() && options.layers.back() > architecture.depth)
    throw ConfigError(concat("--layers names block ", options.layers.back(),
                             ", and the backbone has ", architecture.depth));
  if (options.cut >= architecture.depth)
    throw ConfigError(concat("--cut ", options.cut, ": the backbone has ", architecture.depth,
                             " blocks, expected 0 (the pixels) to ", architecture.depth - 1));
  if (const std::int64_t first = layers_of(options, architecture).front(); first <= options.cut)
    throw ConfigError(concat("--layers names block ", first,
                             ", counted from 1, which comes before ", "--cut ", options.cut,
                             ", counted from 0: its features could not be ",
                             "made of what is kept; give --cut ", first - 1, " or less"));
  const bool last_alone = of_last_block_alone(options, architecture);
  if (!last_alone && pooling == Pooling::kMap)
    refuse("is trained for the last block's tokens alone; leave out --layers");
  const bool one_vector =
      pooling != Pooling::kClsMean && pooling != Pooling::kNone && pooling != Pooling::kTime;
  if (options.projection && (!last_alone || !one_vector))
    throw ConfigError(
        "--projection takes one vector of the last block; leave out --layers, and use --pool cls "
        "or mean");
}

}  // namespace coldframe::vit
