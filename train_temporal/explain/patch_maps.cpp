#include "train_temporal/explain/patch_maps.h"

#include <algorithm>
#include <utility>

#include "cache/store/pictures.h"
#include "common/cli/error.h"
#include "common/files/png.h"
#include "train_temporal/explain/patch_contributions.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

torch::Tensor some_of(const torch::Tensor& rows, std::size_t most) {
  const auto all = static_cast<std::size_t>(rows.size(0));
  if (all <= most) return rows;
  const std::vector<std::size_t> chosen = cache::middles_of_parts(all, most);
  const std::vector<std::int64_t> places(chosen.begin(), chosen.end());
  return rows.index_select(0, torch::tensor(places).to(rows.device()));
}

// What one ViT is asked of an exam. A frozen one goes through its blocks once for all models: their
// gradients add up.
FrameNumber asked_of(const ExplainedExam& exam, std::size_t place, std::size_t vits,
                     std::size_t most) {
  const torch::Tensor gradient =
      vits == 1 ? torch::stack(exam.gradients).sum(0) : exam.gradients[place];
  return {some_of(gradient, most), kCompleteness * exam.unit / static_cast<double>(vits)};
}

}  // namespace

void check_maps(const ModelMetadata& card, const fs::path& weights) {
  const std::string kind = card.recipe.features.value("backbone", Json::object()).value("kind", "");
  if (kind != "vit" && kind != "random")
    throw ConfigError("--maps looks into a ViT, and these features are of another backbone");
  if (!card.config.architecture->sees_frames)
    throw ConfigError("--maps tells where in frames a model looks, and these models see no frames");
  if (card.arrangement.asked())
    throw ConfigError("--maps does not go with models of several streams or visits");
  if (kind == "vit" && weights.empty() && !card.tuned)
    throw ConfigError("--maps needs the weights that the cache was made with: --weights PATH");
}

void require_cut(const SequenceReader& cache) {
  if (!cache.cut())
    throw ConfigError(
        "--maps needs what enters a block of the ViT; extract these exams with --cut 0 (pixels: "
        "maps lie over the frames then) or --cut BLOCK, or predict with a bundle and --input");
}

// A ViT with the blocks that are looked at.
class PatchMaps::Vit {
 public:
  Vit(const Json& recipe, std::int64_t cut, const fs::path& weights, const std::string& digest,
      const torch::Device& device)
      : source(recipe, cut, weights, digest), blocks(source, device) {}
  tune::TunedSource source;
  LateBlocks blocks;
};

std::size_t count_vits(std::span<const TrainedModel> models) {
  return models.front().card.tuned ? models.size() : 1;
}

PatchMaps::PatchMaps(const ModelMetadata& card, const Dataset& dataset, const fs::path& weights)
    : dataset_(dataset), cut_(dataset, RowKind::kCut) {
  if (!card.tuned) open_vit(card, weights);
}
PatchMaps::~PatchMaps() = default;

void PatchMaps::open_vit(const ModelMetadata& card, const fs::path& weights) {
  vit_ = std::make_unique<Vit>(card.recipe.features, dataset_.cache->cut()->block, weights,
                               card.tuned ? card.tuned->weights_sha256 : "", dataset_.device);
  block_ = vit_->blocks.block();
  image_size_ = vit_->source.image_size();
}

std::vector<torch::Tensor> PatchMaps::of(std::span<const TrainedModel> models,
                                         std::span<const ExplainedExam> exams, std::size_t most,
                                         const std::function<void()>& frame_done) {
  std::vector<torch::Tensor> maps(exams.size());
  std::vector<double> gaps(exams.size());
  const std::size_t vits = count_vits(models);
  for (std::size_t i = 0; i < vits; ++i) {
    const TrainedModel& model = models[i];
    if (model.card.tuned) open_vit(model.card, backbone_folder(model.file));
    add_vit(i, vits, exams, most, frame_done, maps, gaps);
    if (model.card.tuned) vit_.reset();
  }
  for (std::size_t i = 0; i < exams.size(); ++i)
    largest_gap_ = std::max(largest_gap_, gaps[i] / exams[i].unit);
  return maps;
}

void PatchMaps::add_vit(std::size_t place, std::size_t vits, std::span<const ExplainedExam> exams,
                        std::size_t most, const std::function<void()>& frame_done,
                        std::vector<torch::Tensor>& maps, std::vector<double>& gaps) {
  const auto end_of = [&](std::size_t from) {  // of the entries of one exam
    return from + static_cast<std::size_t>(std::ranges::count(exams.subspan(from), exams[from].exam,
                                                              &ExplainedExam::exam));
  };
  FeatureSource::Groups groups;
  for (std::size_t from = 0; from < exams.size(); from = end_of(from))
    groups.push_back({exams[from].exam});
  cut_.plan(groups);
  for (std::size_t from = 0, to = 0; from < exams.size(); from = to) {
    to = end_of(from);
    cut_.next();
    std::vector<FrameNumber> asked;
    for (std::size_t i = from; i < to; ++i) asked.push_back(asked_of(exams[i], place, vits, most));
    const auto found =
        vit_->blocks.explain(some_of(cut_.window().features, most), asked, frame_done);
    for (std::size_t i = from; i < to; ++i) {
      const PatchContributions& one = found[i - from];
      maps[i] = place == 0 ? one.patches : maps[i] + one.patches;
      gaps[i] += one.largest_gap;
    }
  }
}

torch::Tensor PatchMaps::pixels_of(std::size_t exam, std::size_t most) {
  if (!dataset_.cache->cut()->is_pixels()) return {};
  cut_.plan({{exam}});
  cut_.next();
  return some_of(cut_.window().features, most);
}

std::string map_picture(const torch::Tensor& map, const torch::Tensor& pixels,
                        const ImageSize& size) {
  const auto drawn = [&](const torch::Tensor& image) {  // [h, w] -> [H, W, 1]
    return image.view({size.height, size.width, 1});
  };
  const torch::Tensor strength =
      drawn(torch::upsample_bilinear2d(map.to(torch::kFloat32).unsqueeze(0).unsqueeze(0),
                                       {size.height, size.width}, /*align_corners=*/false));
  torch::Tensor grey = torch::full({size.height, size.width, 1}, 255.0F);
  if (pixels.defined())
    grey = drawn(torch::adaptive_avg_pool2d(pixels.cpu().to(torch::kFloat32).mean(2).unsqueeze(0),
                                            {size.height, size.width}));
  const torch::Tensor adds = torch::tensor({214.0F, 39.0F, 40.0F});
  const torch::Tensor takes = torch::tensor({31.0F, 100.0F, 200.0F});
  const torch::Tensor color = torch::where(strength > 0, adds, takes);
  const torch::Tensor mixed =
      torch::lerp(grey.expand_as(color), color, 0.8 * strength.abs().expand_as(color));
  const torch::Tensor bytes = mixed.round().clamp(0, 255).to(torch::kUInt8).contiguous();
  return png_picture({bytes.data_ptr<std::uint8_t>(), bytes.nbytes()},
                     static_cast<std::size_t>(size.width));
}

double full_color(const torch::Tensor& maps) {
  return std::max(maps.abs().max().item<double>(), 1e-12);
}

}  // namespace coldframe::temporal
