// timm's names of plain ViTs (timm/models/vision_transformer.py and deit.py, 1.0).
#include <map>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

namespace {

struct Size {
  const char* name;
  std::int64_t width, depth, heads;
};
constexpr Size kSizes[] = {
    {"tiny", 192, 12, 3},    {"small", 384, 12, 6},  {"base", 768, 12, 12},
    {"large", 1024, 24, 16}, {"huge", 1280, 32, 16},
};

Architecture plain(const Size& size, std::int64_t patch, std::int64_t image) {
  Architecture architecture;
  architecture.patch = patch;
  architecture.width = size.width;
  architecture.depth = size.depth;
  architecture.heads = size.heads;
  architecture.mlp_hidden = 4 * size.width;
  architecture.position_grid = image / patch;
  return architecture;
}

using Table = std::map<std::string, Architecture>;

void add_plain(Table& table) {
  for (const Size& size : kSizes) {
    for (const std::int64_t patch : {8, 14, 16})
      for (const std::int64_t image : {224, 384})
        if (image % patch == 0)
          table[concat("vit_", size.name, "_patch", patch, "_", image)] = plain(size, patch, image);
    if (size.width > 768) continue;
    for (const std::int64_t image : {224, 384})
      table[concat("deit_", size.name, "_patch16_", image)] = plain(size, 16, image);
  }
}

// 518 pixels; timm's registers come with positions of patches only.
void add_dinov2(Table& table) {
  for (const Size& size : {kSizes[1], kSizes[2], kSizes[3]}) {
    Architecture architecture = plain(size, 14, 518);
    architecture.layer_scale = true;
    table[concat("vit_", size.name, "_patch14_dinov2")] = architecture;
    architecture.registers = 4;
    architecture.prefix_positions = false;
    table[concat("vit_", size.name, "_patch14_reg4_dinov2")] = architecture;
  }
}

void add_deit3(Table& table) {
  for (const Size& size : {kSizes[1], kSizes[2], kSizes[3]})
    for (const std::int64_t image : {224, 384}) {
      Architecture architecture = plain(size, 16, image);
      architecture.layer_scale = true;
      architecture.prefix_positions = false;
      table[concat("deit3_", size.name, "_patch16_", image)] = architecture;
    }
}

// Adds the models without a class token.
void add_gap(Table& table) {
  Architecture base = plain(kSizes[2], 16, 224);
  base.heads = 16;
  base.class_token = false;
  table["vit_base_patch16_gap_224"] = base;
  for (const std::int64_t image : {240, 256, 384}) {
    Architecture medium = plain({"medium", 512, 12, 8}, 16, image);
    medium.class_token = false;
    medium.qkv_bias = false;
    medium.layer_scale = true;
    table[concat("vit_medium_patch16_gap_", image)] = medium;
  }
}

const Table& architectures() {
  static const auto* table = [] {
    auto* all = new Table;
    add_plain(*all);
    add_dinov2(*all);
    add_deit3(*all);
    add_gap(*all);
    return all;
  }();
  return *table;
}

}  // namespace

Architecture named_architecture(const std::string& name) {
  const auto found = architectures().find(name.substr(0, name.find('.')));
  if (found != architectures().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, architecture] : architectures()) names.push_back(known);
  throw ConfigError(concat("unknown architecture '", name, "'; known are ", join(names, ", ")));
}

}  // namespace coldframe::vit
