#include "extract/vit/checkpoint/naming_schemes.h"

#include <array>

namespace coldframe::vit {

namespace {

// transformers/models/{vit,vit_mae,deit,ijepa,beit,dinov2,dinov2_with_registers}.
constexpr Renaming kTransformersVit[] = {
    {"^embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"^embeddings.position_embeddings", "pos_embed"},
    {"^embeddings.distillation_token", "dist_token"},
    {"^embeddings.", ""},  // cls_token, mask_token, register_tokens
    {"^encoder.layer.", "blocks."},
    {"^encoder.relative_position_bias.", "rel_pos_bias."},
    {".attention.attention.relative_position_bias.", ".attn."},
    {".attention.attention.query.", ".attn.q_proj."},
    {".attention.attention.key.", ".attn.k_proj."},
    {".attention.attention.value.", ".attn.v_proj."},
    {".attention.output.dense.", ".attn.proj."},
    {".intermediate.dense.", ".mlp.fc1."},
    {".output.dense.", ".mlp.fc2."},
    {".mlp.weights_in.", ".mlp.fc1."},
    {".mlp.weights_out.", ".mlp.fc2."},
    {".layernorm_before.", ".norm1."},
    {".layernorm_after.", ".norm2."},
    {".layer_scale1.lambda1", ".ls1.gamma"},
    {".layer_scale2.lambda1", ".ls2.gamma"},
    {".lambda_1", ".ls1.gamma"},
    {".lambda_2", ".ls2.gamma"},
    {"^layernorm.", "norm."},
    {"^pooler.layernorm.", "fc_norm."},
    {"^pooler.dense.", "head."},
};

// transformers/models/dinov3_vit.
constexpr Renaming kTransformersDinov3[] = {
    {"^embeddings.patch_embeddings.", "patch_embed.proj."},
    {"^embeddings.register_tokens", "reg_token"},
    {"^embeddings.", ""},
    {"^model.layer.", "blocks."},
    {"^layer.", "blocks."},
    {".attention.o_proj.", ".attn.proj."},
    {".attention.", ".attn."},
    {".layer_scale1.lambda1", ".ls1.gamma"},
    {".layer_scale2.lambda1", ".ls2.gamma"},
    {".mlp.gate_proj.", ".mlp.fc1_g."},
    {".mlp.up_proj.", ".mlp.fc1_x."},
    {".mlp.down_proj.", ".mlp.fc2."},
};

// transformers/models/{clip,siglip,siglip2}.
constexpr Renaming kTransformersClip[] = {
    {"^embeddings.patch_embedding.", "patch_embed.proj."},
    {"^embeddings.position_embedding.weight", "pos_embed"},
    {"^embeddings.class_embedding", "cls_token"},
    {"^pre_layrnorm.", "norm_pre."},
    {"^post_layernorm.", "norm."},
    {"^encoder.layers.", "blocks."},
    {".layer_norm1.", ".norm1."},
    {".layer_norm2.", ".norm2."},
    {".self_attn.out_proj.", ".attn.proj."},
    {".self_attn.", ".attn."},
    {"^head.probe", "attn_pool.latent"},
    {"^head.attention.in_proj_", "attn_pool.in_proj_"},
    {"^head.attention.out_proj.", "attn_pool.proj."},
    {"^head.layernorm.", "attn_pool.norm."},
    {"^head.mlp.", "attn_pool.mlp."},
};

// open_clip/transformer.py, and OpenAI's CLIP before it.
constexpr Renaming kOpenClip[] = {
    {"^conv1.", "patch_embed.proj."},
    {"^class_embedding", "cls_token"},
    {"^positional_embedding", "pos_embed"},
    {"^ln_pre.", "norm_pre."},
    {"^ln_post.", "norm."},
    {"^proj", "head.proj"},
    {"^transformer.resblocks.", "blocks."},
    {".ln_1.", ".norm1."},
    {".ln_2.", ".norm2."},
    {".attn.in_proj_", ".attn.qkv."},
    {".attn.out_proj.", ".attn.proj."},
    {".mlp.c_fc.", ".mlp.fc1."},
    {".mlp.c_proj.", ".mlp.fc2."},
    {".ls_1.", ".ls1."},
    {".ls_2.", ".ls2."},
};

// timm's names, and those that repositories derived from it have: facebookresearch/{dino,dinov2,
// dinov3,mae,deit,ijepa}, microsoft/unilm (BEiT), baaivision/EVA.
constexpr Renaming kTimm[] = {
    {"^storage_tokens", "reg_token"},
    {".mlp.w12.", ".mlp.fc1."},
    {".mlp.w3.", ".mlp.fc2."},
    {".mlp.w1.", ".mlp.fc1_g."},
    {".mlp.w2.", ".mlp.fc1_x."},
    {".mlp.ffn_ln.", ".mlp.norm."},
    {".attn.inner_attn_ln.", ".attn.norm."},
    {".gamma_1", ".ls1.gamma"},
    {".gamma_2", ".ls2.gamma"},
};

constexpr ProjectionName kClipProjection[] = {{"vision_model.", "visual_projection.weight", ""}};
constexpr ProjectionName kOpenClipProjection[] = {{"", "proj", "", true}};
// open_clip's towers that timm makes (timm_model.py), and timm's own conversions of CLIPs.
constexpr ProjectionName kTimmProjection[] = {{"trunk.", "head.proj.weight", "head.proj.bias"},
                                              {"", "head.weight", "head.bias"}};

constexpr std::array kSchemes = std::to_array<NamingScheme>({
    {"transformers' ViT, BEiT or DINOv2", "embeddings.patch_embeddings.projection.weight",
     kTransformersVit, true},
    {"transformers' DINOv3", "embeddings.patch_embeddings.weight", kTransformersDinov3, true},
    {"transformers' CLIP or SigLIP", "embeddings.patch_embedding.weight", kTransformersClip, true,
     kClipProjection},
    {"open_clip", "conv1.weight", kOpenClip, true, kOpenClipProjection},
    {"timm", "patch_embed.proj.weight", kTimm, false, kTimmProjection},
});

void replace(std::string& name, const Renaming& renaming) {
  if (renaming.from.starts_with('^')) {
    const std::string_view start = renaming.from.substr(1);
    if (name.starts_with(start)) name.replace(0, start.size(), renaming.to);
    return;
  }
  const std::size_t at = name.find(renaming.from);
  if (at != std::string::npos) name.replace(at, renaming.from.size(), renaming.to);
}

}  // namespace

std::span<const NamingScheme> naming_schemes() {
  return kSchemes;
}

std::string renamed(const NamingScheme& scheme, std::string name) {
  for (const Renaming& renaming : scheme.renamings) replace(name, renaming);
  return name;
}

}  // namespace coldframe::vit
