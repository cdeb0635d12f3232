#include "train_temporal/explain/maps.h"

#include <algorithm>
#include <cmath>

#include "common/charts/files/png_picture.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/exam_files.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTableFile = "patches.csv";

// `map` [rows, columns] from -1 to 1, over the frame's pixels [H, W, 3], or over white. What adds
// is red, what takes away blue, the more the stronger.
std::string overlay(const torch::Tensor& map, const torch::Tensor& pixels, const ImageSize& size) {
  const torch::Tensor strength =
      torch::upsample_bilinear2d(map.to(torch::kFloat32).unsqueeze(0).unsqueeze(0),
                                 {size.height, size.width}, /*align_corners=*/false)
          .view({size.height, size.width, 1});
  const torch::Tensor grey =
      pixels.defined()
          ? pixels.cpu().to(torch::kFloat32).mean(2, true).expand({size.height, size.width, 3})
          : torch::full({size.height, size.width, 3}, 255.0F);
  const torch::Tensor adds = torch::tensor({214.0F, 39.0F, 40.0F});
  const torch::Tensor takes = torch::tensor({31.0F, 100.0F, 200.0F});
  const torch::Tensor color = torch::where(strength > 0, adds, takes);
  const torch::Tensor mixed = torch::lerp(grey, color, 0.8 * strength.abs().expand_as(grey));
  const torch::Tensor bytes = mixed.round().clamp(0, 255).to(torch::kUInt8).contiguous();
  return html::png_picture({bytes.data_ptr<std::uint8_t>(), bytes.nbytes()},
                           static_cast<std::size_t>(size.width));
}

// The lines of one frame: its patches, and what no patch adds.
std::string table_lines(const std::vector<std::string>& start, const torch::Tensor& map,
                        double whole) {
  std::string csv;
  const auto values = map.accessor<double, 2>();
  double sum = 0;
  const auto line = [&](const std::string& row, const std::string& column, double value) {
    std::vector<std::string> fields = start;
    fields.insert(fields.end(), {row, column, exact(value)});
    csv += csv_row(fields);
  };
  for (std::int64_t row = 0; row < map.size(0); ++row) {
    for (std::int64_t column = 0; column < map.size(1); ++column) {
      line(concat(row), concat(column), values[row][column]);
      sum += values[row][column];
    }
  }
  line("", "", whole - sum);
  return csv;
}

}  // namespace

// A ViT with the blocks that are looked at.
class MapWriter::Vit {
 public:
  Vit(const Json& recipe, std::int64_t cut, const fs::path& weights, const std::string& digest,
      const torch::Device& device)
      : source(recipe, cut, weights, digest), blocks(source, device) {}
  tune::TunedSource source;
  LateBlocks blocks;
};

void check_maps(const cache::CacheReader& cache, std::span<const TrainedModel> models,
                const fs::path& weights) {
  const ModelMetadata& card = models.front().card;
  const std::string kind = card.recipe.features.value("backbone", Json::object()).value("kind", "");
  if (kind != "vit" && kind != "random")
    throw ConfigError("--maps looks into a ViT, and these features are of another backbone");
  if (kind == "vit" && weights.empty() && !card.tuned)
    throw ConfigError("--maps needs the weights that the cache was made with: --weights PATH");
  if (std::ranges::any_of(models, [](const auto& one) { return !one.model->uses_features(); }))
    throw ConfigError("--maps tells where in frames a model looks, and these models see no frames");
  if (card.arrangement.asked())
    throw ConfigError("--maps does not go with models of several streams or visits");
  if (!cache.cut())
    throw ConfigError(
        "--maps needs what enters a block of the ViT; extract these exams with --cut 0 (pixels: "
        "maps lie over the frames then) or --cut BLOCK, or give a bundle and --input");
}

MapWriter::MapWriter(fs::path folder, std::span<const TrainedModel> models, const Dataset& dataset,
                     const fs::path& weights)
    : folder_(std::move(folder)), models_(models), dataset_(dataset), cut_(dataset, RowKind::kCut) {
  fs::create_directory(folder_);
  const std::int64_t cut = dataset.cache->cut()->block;
  for (const TrainedModel& one : models) {
    const auto& tuned = one.card.tuned;
    vits_.push_back(std::make_unique<Vit>(one.card.recipe.features, cut,
                                          tuned ? backbone_folder(one.file) : weights,
                                          tuned ? tuned->weights_sha256 : "", dataset.device));
    if (!tuned) break;
  }
}
MapWriter::~MapWriter() = default;

std::int64_t MapWriter::block() const {
  return vits_.front()->blocks.block();
}

// [frames, rows, columns]. A frozen ViT goes through its blocks once for all models: their
// gradients add up.
torch::Tensor MapWriter::patches_of(const ExplainedExam& exam, const torch::Tensor& rows) {
  std::vector<torch::Tensor> gradients = exam.gradients;
  if (vits_.size() == 1 && !gradients.empty()) gradients = {torch::stack(gradients).sum(0)};
  const vit::Grid& grid = vits_.front()->blocks.grid();
  torch::Tensor sum = torch::zeros({rows.size(0), grid.rows, grid.columns}, torch::kFloat64);
  const double tolerance = kCompleteness * exam.unit / static_cast<double>(gradients.size());
  double gap = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const PatchContributions one = vits_[i]->blocks.explain(rows, gradients[i], tolerance);
    sum += one.patches;
    gap += one.largest_gap;
  }
  largest_gap_ = std::max(largest_gap_, gap / exam.unit);
  return sum;
}

void MapWriter::add(std::size_t place, std::span<const ExplainedExam> targets) {
  const cache::ExamInfo& info = dataset_.cache->exams()[targets.front().exam];
  cut_.plan({{targets.front().exam}});
  cut_.next();
  const torch::Tensor rows = cut_.window().features;
  const bool pixels = dataset_.cache->cut()->is_pixels();
  const fs::path folder = folder_ / exam_folder_name(place, info.id);
  fs::create_directory(folder);
  std::string csv =
      csv_row({"frame", "time_s", "target", "class", "row", "column", "contribution"});
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const ExplainedExam& explained = targets[t];
    const Target& target = models_.front().card.targets[explained.target];
    const torch::Tensor maps = patches_of(explained, rows);
    const double largest = std::max(maps.abs().max().item<double>(), 1e-12);
    std::int64_t present = 0;
    for (std::size_t slot = 0; slot < info.frames(); ++slot) {
      if (!info.present[slot]) continue;
      const double time = info.time_s[slot];
      csv += table_lines({concat(slot), std::isfinite(time) ? exact(time) : "", target.name,
                          explained.of_class ? target.classes[*explained.of_class] : ""},
                         maps[present], explained.values.frames[static_cast<std::size_t>(present)]);
      write_exam_file(folder / frame_file_name(slot, t == 0 ? ".png" : concat("-", t + 1, ".png")),
                      overlay(maps[present] / largest, pixels ? rows[present] : torch::Tensor(),
                              vits_.front()->source.image_size()));
      ++present;
    }
  }
  write_exam_file(folder / kTableFile, csv);
}

void require_maps(const fs::path& folder) {
  require_exam_files(folder, {".png", ".csv"}, "map");
}

}  // namespace coldframe::temporal
