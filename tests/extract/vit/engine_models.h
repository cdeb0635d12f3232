// Models that both engines compute beyond plain ViTs: each switch of Architecture alone, and
// several together as published models have them.
#pragma once

#include <functional>
#include <utility>

#include "tests/extract/vit/small_models.h"

namespace coldframe::vit {

struct Switch {
  const char* name;
  std::function<void(Architecture&)> set;
};

inline void gate(Architecture& a) {
  a.gated_mlp = true;
  a.activation = Activation::kSilu;
}

inline void turn(Architecture& a, Rotary rotary, bool half) {
  a.rotary = rotary;
  a.rotary_half = half;
  a.rotary_temperature = rotary == Rotary::kMixed ? 0 : 100;
}

inline void like_eva02(Architecture& a) {
  gate(a);
  turn(a, Rotary::kAxial, false);
  a.rotary_grid = a.position_grid;
  a.attention_norm = a.mlp_norm = true;
  with_final_norms(a, false, true);
}

inline void like_dinov3(Architecture& a) {
  turn(a, Rotary::kDinov3, true);
  a.registers = 4;
  a.positions = a.qkv_bias = false;
  a.position_grid = 0;
  a.layer_scale = true;
  a.norm_epsilon = 1e-5;
}

inline void like_aimv2(Architecture& a) {
  gate(a);
  a.rms_norm = a.patch_norm = true;
  a.class_token = a.qkv_bias = a.projection_bias = false;
  a.norm_epsilon = 1e-5;
}

inline void like_perception_encoder(Architecture& a) {
  turn(a, Rotary::kAxial, false);
  a.rotary_xy = a.norm_pre = a.attention_pool = a.pool_prefix = true;
  a.rotary_offset = 1;
  a.rotary_grid = a.position_grid;
  a.pool_heads = 4;
  a.pool_hidden = a.mlp_hidden;
  a.norm_epsilon = 1e-5;
}

inline void like_siglip(Architecture& a) {
  a.class_token = false;
  a.activation = a.pool_activation = Activation::kGeluTanh;
  a.attention_pool = true;
  a.pool_heads = 2;
  a.pool_hidden = a.mlp_hidden;
}

inline void like_beit(Architecture& a) {
  a.relative_positions = a.layer_scale = true;
  a.positions = false;
  with_final_norms(a, false, true);
}

inline std::vector<Switch> switches() {
  return {{"norm_epsilon", [](auto& a) { a.norm_epsilon = 0.3; }},
          {"norm_pre", [](auto& a) { a.norm_pre = true; }},
          {"no_positions", [](auto& a) { a.positions = false; }},
          {"patch_norm", [](auto& a) { a.patch_norm = true; }},
          {"no_patch_bias", [](auto& a) { a.patch_bias = false; }},
          {"gelu_tanh", [](auto& a) { a.activation = Activation::kGeluTanh; }},
          {"quick_gelu", [](auto& a) { a.activation = Activation::kQuickGelu; }},
          {"silu", [](auto& a) { a.activation = Activation::kSilu; }},
          {"gated_by_silu", gate},
          {"gated_by_gelu", [](auto& a) { a.gated_mlp = true; }},
          {"mlp_norm", [](auto& a) { a.mlp_norm = true; }},
          {"attention_norm", [](auto& a) { a.attention_norm = true; }},
          {"no_qkv_bias", [](auto& a) { a.qkv_bias = false; }},
          {"no_projection_bias", [](auto& a) { a.projection_bias = false; }},
          {"qk_norm", [](auto& a) { a.qk_norm = true; }},
          {"rms_norm", [](auto& a) { a.rms_norm = a.qk_norm = a.mlp_norm = true; }},
          {"relative_positions", [](auto& a) { a.relative_positions = true; }},
          {"no_final_norm", [](auto& a) { with_final_norms(a, false, false); }},
          {"two_final_norms", [](auto& a) { with_final_norms(a, true, true); }},
          {"axial", [](auto& a) { turn(a, Rotary::kAxial, false); }},
          {"axial_half", [](auto& a) { turn(a, Rotary::kAxial, true); }},
          {"mixed", [](auto& a) { turn(a, Rotary::kMixed, false); }},
          {"mixed_half", [](auto& a) { turn(a, Rotary::kMixed, true); }},
          {"dinov3", [](auto& a) { turn(a, Rotary::kDinov3, true); }},
          {"turned_and_normed", [](auto& a) {
             turn(a, Rotary::kAxial, false);
             a.qk_norm = true;
           }}};
}

// Images are of the native size and another.
inline std::vector<SmallModel> beyond_plain_models() {
  std::vector<SmallModel> models;
  const auto add = [&](const std::string& name, Architecture architecture, const auto& set) {
    architecture.depth = 2;
    architecture.mlp_hidden = 2 * architecture.width + 2;
    const std::int64_t native = architecture.position_grid * architecture.patch;
    set(architecture);
    models.push_back({name, architecture, native});
    if (!architecture.relative_positions)
      models.push_back({name + "_at_other_size", architecture, native + 2 * architecture.patch});
  };
  for (const Switch& one : switches()) add(one.name, small_architecture(64, 2, 4, 4), one.set);
  add("eva02", small_architecture(192, 3, 7, 4), like_eva02);
  add("dinov3", small_architecture(128, 2, 16, 3), like_dinov3);
  add("dinov3_gated", small_architecture(128, 2, 16, 3), [](auto& a) {
    like_dinov3(a);
    gate(a);
  });
  add("aimv2", small_architecture(128, 1, 14, 3), like_aimv2);
  add("perception_encoder", small_architecture(192, 4, 8, 3), like_perception_encoder);
  add("siglip_so400m", small_architecture(144, 2, 14, 3), like_siglip);
  add("beit", small_architecture(128, 2, 16, 3), like_beit);
  // Heads of 80 features (ViT-H), and of 36, of which no vector holds half.
  add("wide_turned_heads", small_architecture(160, 2, 4, 4), like_dinov3);
  add("odd_turned_heads", small_architecture(108, 3, 4, 4), like_eva02);
  return models;
}

// Of clips of four frames or more, as VideoMAE and V-JEPA are.
inline std::vector<SmallModel> clip_models() {
  const auto of = [](std::int64_t width, std::int64_t heads, Rotary rotary) {
    Architecture a = without_class_token(small_architecture(width, heads, 4, 0));
    a.tubelet = 2;
    a.depth = 2;
    a.mlp_hidden = 2 * width + 2;
    a.positions = false;
    a.qkv_bias = true;
    a.rotary = rotary;
    a.rotary_temperature = 10'000;
    a.rotary_grid = rotary == Rotary::kVjepa21 ? 5 : 0;
    return a;
  };
  Architecture videomae = of(72, 3, Rotary::kNone), learnt = videomae;
  videomae.sinusoid_grid = 3;
  with_final_norms(videomae, false, true);
  videomae.fc_norm_epsilon = 0.1;
  learnt.positions = true;
  learnt.position_grid = 3;
  learnt.position_steps = 2;
  return {{"videomae", videomae, 12, 8},
          {"learnt_positions_of_clips", learnt, 12, 4},
          {"vjepa2", of(128, 2, Rotary::kVjepa2), 16, 6},
          {"vjepa2_of_odd_thirds", of(160, 2, Rotary::kVjepa2), 12, 4},
          {"vjepa2_1", of(128, 2, Rotary::kVjepa21), 16, 4},
          {"one_row", of(64, 1, Rotary::kVjepa21), 4, 6}};
}

// Those that the CPU engine refuses, like `base` otherwise; and wide tokens.
inline std::vector<SmallModel> models_of_other_blocks(const Architecture& base) {
  Architecture behind = base, things = behind, scaling = behind, difference = behind;
  Architecture wide = small_architecture(2052, 27, 4, 2);
  wide.depth = 1;
  wide.mlp_hidden = 8;
  behind.block = BlockKind::kPostNorm;
  things.block = BlockKind::kParallelThings;
  things.parallel = 2;
  things.layer_scale = true;
  scaling.block = BlockKind::kParallelScaling;
  scaling.qk_norm = scaling.layer_scale = true;
  scaling.qkv_bias = false;
  Architecture biased = scaling;
  biased.qkv_bias = true;
  difference.differential = true;
  return {{"post_norm", behind, 16},         {"parallel_things", things, 16},
          {"parallel_scaling", scaling, 16}, {"parallel_scaling_with_bias", biased, 16},
          {"differential", difference, 16},  {"wide", wide, 8}};
}

}  // namespace coldframe::vit
