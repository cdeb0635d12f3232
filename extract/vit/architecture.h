// The architecture of a ViT, from its weights, a config next to them, or its name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "common/files/json.h"
#include "common/text/spelling.h"
#include "common/torch/safetensors.h"

namespace coldframe::vit {

inline constexpr std::int64_t kMostClipFrames = 4096;

enum class Activation { kGelu, kGeluTanh, kQuickGelu, kSilu };
inline const WordTable<Activation> kActivations{{"gelu", Activation::kGelu},
                                                {"gelu_tanh", Activation::kGeluTanh},
                                                {"quick_gelu", Activation::kQuickGelu},
                                                {"silu", Activation::kSilu}};

// The kind of block; vit.h defines each.
enum class BlockKind { kPreNorm, kPostNorm, kParallelThings, kParallelScaling };
inline const WordTable<BlockKind> kBlockKinds{{"pre_norm", BlockKind::kPreNorm},
                                              {"post_norm", BlockKind::kPostNorm},
                                              {"parallel_things", BlockKind::kParallelThings},
                                              {"parallel_scaling", BlockKind::kParallelScaling}};

// Rotary position embeddings (RoPE) of queries and keys; vit.h defines each.
enum class Rotary { kNone, kAxial, kMixed, kDinov3, kVjepa2, kVjepa21 };
inline const WordTable<Rotary> kRotaries{
    {"none", Rotary::kNone},     {"axial", Rotary::kAxial},   {"mixed", Rotary::kMixed},
    {"dinov3", Rotary::kDinov3}, {"vjepa2", Rotary::kVjepa2}, {"vjepa2_1", Rotary::kVjepa21}};

// How pos_embed is resampled to another grid.
enum class Resampling { kBicubicAntialiased, kBicubic, kBilinearAntialiased };
inline const WordTable<Resampling> kResamplings{
    {"bicubic_antialiased", Resampling::kBicubicAntialiased},
    {"bicubic", Resampling::kBicubic},
    {"bilinear_antialiased", Resampling::kBilinearAntialiased}};

// The defaults are those of a plain ViT-S/16. In fields that apply to some models only, 0 means
// none.
struct Architecture {
  // Fields determined by names and shapes of the weights.
  std::int64_t patch = 16;          // pixels along a patch's side
  std::int64_t tubelet = 0;         // frames of a patch of a clip's; 0: the ViT takes images
  std::int64_t width = 384;         // features of a token
  std::int64_t depth = 12;          // blocks
  std::int64_t mlp_hidden = 1536;   // input features of a block's fc2
  std::int64_t position_grid = 14;  // patches per side of the image that pos_embed fits
  std::int64_t position_steps = 1;  // and its steps, where it is of a clip's patches
  std::int64_t registers = 0;       // reg_token's rows; a distilled DeiT's second token is one
  std::int64_t parallel = 1;        // parallel attentions and MLPs in a block
  std::int64_t pool_hidden = 0;     // input features of the attention pooling's fc2
  std::int64_t pool_depth = 0;      // blocks in front of the attention pooling's query
  bool class_token = true;
  bool patch_bias = true;
  bool patch_norm = false;          // a norm directly follows the patch embedding
  bool positions = true;            // there is a pos_embed
  bool prefix_positions = true;     // pos_embed has rows for class token and registers too
  bool relative_positions = false;  // attention has a bias per relative position
  bool norm_pre = false;            // a norm precedes the blocks
  bool layer_scale = false;
  bool qkv_bias = true;
  bool projection_bias = true;  // of attention's proj and of the MLP
  bool qk_norm = false;         // queries and keys are normalised in each head
  bool attention_norm = false;  // head outputs are normalised before proj (sub-LN)
  bool differential = false;    // attention is the difference of two (DiffAttention)
  bool gated_mlp = false;       // fc1 outputs gate and value (SwiGLU)
  bool mlp_norm = false;        // fc2's input is normalised (sub-LN)
  bool rms_norm = false;        // norms do not centre and have no bias
  bool norm = true;             // a norm precedes pooling (timm's norm),
  bool fc_norm = false;         // or follows averaging (timm's fc_norm)
  bool attention_pool = false;  // there is an attention pooling (SigLIP's MAP)
  bool pool_residual = false;   // it is V-JEPA's: it adds to its query, and norms the tokens

  // Fields not determined by names and shapes.
  std::int64_t heads = 6;
  std::int64_t frames = 1;  // of the clips that it was trained with
  Activation activation = Activation::kGelu;
  BlockKind block = BlockKind::kPreNorm;  // except parallel kinds
  double norm_epsilon = 1e-6;
  double fc_norm_epsilon = 0;     // of fc_norm; 0: norm_epsilon
  Rotary rotary = Rotary::kNone;  // except kMixed
  bool rotary_half = false;       // rotates features i and i + d/2; else 2i and 2i + 1
  bool rotary_xy = false;         // columns precede rows
  double rotary_temperature = 0;  // base of the wavelengths
  double rotary_offset = 0;       // patches
  std::int64_t rotary_grid = 0;   // positions are scaled to this many patches per side; 0: unscaled
  // Patches per side of the images that computed positions fit (sinusoids() of vit.h).
  std::int64_t sinusoid_grid = 0;
  Resampling resampling = Resampling::kBicubicAntialiased;
  std::int64_t pool_heads = 0;
  Activation pool_activation = Activation::kGelu;
  bool pool_prefix = false;  // attention pooling includes class token and registers

  std::int64_t prefix_tokens() const { return (class_token ? 1 : 0) + registers; }
  bool takes_clips() const { return tubelet > 0; }
  // Its patches are cubes: it takes a block of a volume as a clip, whose frames are the planes
  // along the first axis.
  bool takes_volumes() const { return tubelet > 0 && tubelet == patch; }
};

// A member of Architecture under the name that recipes and published/models.csv use.
struct Field {
  std::string_view key;
  std::string_view what;  // in messages
  bool shown;             // determined by names and shapes
  bool engines;           // the engine of cpu/ supports every value
  std::variant<std::int64_t Architecture::*, bool Architecture::*, double Architecture::*,
               Activation Architecture::*, BlockKind Architecture::*, Rotary Architecture::*,
               Resampling Architecture::*>
      member;
  // A tensor of plain ViTs that exists if the member is true.
  std::string_view sign{};

  std::string text(const Architecture& architecture) const;
  void set(Architecture& architecture, const std::string& text) const;  // DataError
  bool same(const Architecture& a, const Architecture& b) const { return text(a) == text(b); }
};

class Fields {
  using A = Architecture;

 public:
  static constexpr Field kRows[] = {
      // key, what, shown by names and shapes, computed by the engine, member, sign
      {"patch", "patch size", true, true, &A::patch},
      {"tubelet", "frames of a patch", true, true, &A::tubelet},
      {"width", "width", true, true, &A::width},
      {"depth", "depth", true, true, &A::depth},
      {"heads", "heads", false, true, &A::heads},
      {"mlp_hidden", "MLP width", true, true, &A::mlp_hidden},
      {"class_token", "class tokens", true, true, &A::class_token, "cls_token"},
      {"registers", "registers", true, true, &A::registers},
      {"layer_scale", "layer scale", true, true, &A::layer_scale},
      {"qkv_bias", "qkv bias", true, true, &A::qkv_bias, "blocks.0.attn.qkv.bias"},
      {"position_grid", "position grid", true, true, &A::position_grid},
      {"position_steps", "steps of positions", true, true, &A::position_steps},
      {"prefix_positions", "prefix positions", true, true, &A::prefix_positions},
      {"norm", "final norm", true, true, &A::norm, "norm.weight"},
      {"fc_norm", "norm behind averaging", true, true, &A::fc_norm, "fc_norm.weight"},
      {"resampling", "resampling of positions", false, true, &A::resampling},
      {"parallel", "parallel branches", true, false, &A::parallel},
      {"pool_hidden", "width of the attention pooling's MLP", true, true, &A::pool_hidden},
      {"pool_depth", "blocks of the attention pooling", true, true, &A::pool_depth},
      {"pool_residual", "attention pooling that adds to its query", true, true, &A::pool_residual,
       "attn_pool.norm1.weight"},
      {"patch_bias", "bias of the patch embedding", true, true, &A::patch_bias,
       "patch_embed.proj.bias"},
      {"patch_norm", "norm of the patch embedding", true, true, &A::patch_norm,
       "patch_embed.norm.weight"},
      {"positions", "absolute positions", true, true, &A::positions, "pos_embed"},
      {"relative_positions", "relative positions", true, true, &A::relative_positions,
       "blocks.0.attn.relative_position_bias_table"},
      {"norm_pre", "norm before the blocks", true, true, &A::norm_pre, "norm_pre.weight"},
      {"projection_bias", "bias of the projections", true, true, &A::projection_bias,
       "blocks.0.attn.proj.bias"},
      {"qk_norm", "normalised queries and keys", true, true, &A::qk_norm,
       "blocks.0.attn.q_norm.weight"},
      {"attention_norm", "normalised attention output", true, true, &A::attention_norm,
       "blocks.0.attn.norm.weight"},
      {"differential", "differential attention", true, false, &A::differential,
       "blocks.0.attn.lambda_q1"},
      {"gated_mlp", "gated MLP", true, true, &A::gated_mlp},
      {"mlp_norm", "normalised MLP", true, true, &A::mlp_norm, "blocks.0.mlp.norm.weight"},
      {"rms_norm", "RMS norms", true, true, &A::rms_norm},
      {"attention_pool", "attention pooling", true, true, &A::attention_pool, "attn_pool.latent"},
      {"activation", "activation", false, true, &A::activation},
      {"block", "kind of block", false, false, &A::block},
      {"norm_epsilon", "epsilon of the norms", false, true, &A::norm_epsilon},
      {"fc_norm_epsilon", "epsilon of the norm behind averaging", false, true, &A::fc_norm_epsilon},
      {"frames", "frames of a clip", false, true, &A::frames},
      {"sinusoid_grid", "grid of computed positions", false, true, &A::sinusoid_grid},
      {"rotary", "rotary positions", false, true, &A::rotary},
      {"rotary_half", "layout of the rotary positions", false, true, &A::rotary_half},
      {"rotary_xy", "order of the rotary axes", false, true, &A::rotary_xy},
      {"rotary_temperature", "rotary temperature", false, true, &A::rotary_temperature},
      {"rotary_offset", "rotary offset", false, true, &A::rotary_offset},
      {"rotary_grid", "rotary grid", false, true, &A::rotary_grid},
      {"pool_heads", "heads of the attention pooling", false, true, &A::pool_heads},
      {"pool_activation", "activation of the attention pooling", false, true, &A::pool_activation},
      {"pool_prefix", "prefix tokens in the attention pooling", false, true, &A::pool_prefix},
  };
};
inline std::span<const Field> fields() {
  return Fields::kRows;
}
const Field* find_field(std::string_view key);  // nullptr if there is none

// A key for each field of plain ViTs, and for other fields if they differ from a plain ViT's.
Json to_json(const Architecture& architecture);
// Reads what to_json() wrote. DataError for a key or a value that it does not write.
Architecture architecture_from_json(const Json& json);

// Sets the fields determined by canonical names (resolve_architecture.h) and tensor shapes; others
// keep their defaults, heads 0. DataError names the missing or unexpected tensor.
Architecture read_architecture(const StateDict& weights);

// DataError, listing every difference, if the weights do not match the named architecture. The
// image size of pos_embed and the position of the last norm may differ.
void require_same(const Architecture& weights, const Architecture& named, const std::string& name);

// The value of a field: "its kind of block (block post_norm)".
std::string value_text(const Architecture& architecture, std::string_view key);
// What the engine of cpu/ does not support, as value_text(); nullopt if it supports all.
std::optional<std::string> beyond_engines(const Architecture& architecture);

}  // namespace coldframe::vit
