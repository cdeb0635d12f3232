// How repositories name a ViT's tensors: a table of renamings for each.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace coldframe::vit {

// Replaces `from` by `to` wherever it stands in a name; at its beginning only if `from` starts with
// '^'.
struct Renaming {
  std::string_view from, to;
};

// The place of a CLIP's projection of images.
struct ProjectionName {
  std::string_view inside;        // the end of the encoder's prefix that is taken off before, ""
  std::string_view weight, bias;  // "" without a bias
  bool transposed = false;        // [D, P] instead of [P, D]
};

struct NamingScheme {
  std::string_view name;    // in messages
  std::string_view marker;  // the end of the name of a tensor that every such checkpoint has
  std::span<const Renaming> renamings;  // into timm's names, in this order
  // Several models with other activations, epsilons or norms have these names and shapes: without a
  // config the model must be named.
  bool asks = false;
  std::span<const ProjectionName> projections{};
};

// In the order in which they are tried.
std::span<const NamingScheme> naming_schemes();

std::string renamed(const NamingScheme& scheme, std::string name);

}  // namespace coldframe::vit
