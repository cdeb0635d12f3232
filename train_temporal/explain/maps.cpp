#include "train_temporal/explain/maps.h"

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/store/pictures.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/exam_files.h"
#include "common/files/png.h"
#include "common/text/text.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

constexpr std::int64_t kMaxTokens = 4096;  // of a batch of points

// Two thirds of the depth: tokens still represent their positions, and few blocks remain to mix
// them. No later than the first layer from which features are taken.
std::int64_t late_block(const tune::TunedSource& source) {
  const vit::Architecture& shape = source.architecture();
  const std::int64_t first_layer = vit::layers_of(source.features(), shape).front();
  return std::max({source.cut(), std::min(shape.depth * 2 / 3, first_layer), std::int64_t{1}});
}

tune::Chain chain_from(std::int64_t block, const tune::TunedSource& source,
                       const torch::Device& device) {
  return {tune::make_tuned_model(source, {}, 0, device), source.features(), block,
          source.levels().to(device)};
}

}  // namespace

// From `base` to base + step, tokens [1, N, D].
struct LateBlocks::Way {
  torch::Tensor base, step;
  torch::Tensor weights;  // [F]
};

LateBlocks::LateBlocks(const tune::TunedSource& source, const torch::Device& device)
    : source_(source),
      device_(device),
      block_(late_block(source)),
      grid_(source.image_size(), source.architecture().patch),
      early_(chain_from(source.cut(), source, device)),
      late_(chain_from(block_, source, device)) {}

// A frame as the cut stores it, [1, …] -> the tokens that enter the block, [1, N, D].
torch::Tensor LateBlocks::entering(const torch::Tensor& row) const {
  const torch::NoGradGuard no_grad;
  tune::Values values = {row.to(device_)};
  if (source_.cut() > 0)
    values[0] = values[0].to(torch::kFloat32).view({1, -1, source_.architecture().width});
  const std::size_t steps = early_.size() - late_.size();
  for (std::size_t step = 0; step < steps; ++step) values = early_.forward(step, values, {});
  return values[0];
}

// tokens [B, N, D] -> [B]
torch::Tensor LateBlocks::number(torch::Tensor tokens, const torch::Tensor& weights) const {
  tune::Values values = {std::move(tokens)};
  for (std::size_t step = 0; step < late_.size(); ++step) values = late_.forward(step, values, {});
  return values[0].mv(weights);
}

// What each token adds, [N] float64.
torch::Tensor LateBlocks::integrate(const Way& way, std::size_t points) const {
  const Quadrature quadrature = gauss_legendre(points);
  const auto column = [&](const std::vector<double>& values) {  // [points, 1, 1]
    return torch::tensor(values, torch::kFloat32).to(device_).view({-1, 1, 1});
  };
  const torch::Tensor places = column(quadrature.points), weights = column(quadrature.weights);
  const std::int64_t at_once = std::max<std::int64_t>(kMaxTokens / way.step.size(1), 1);
  torch::Tensor sum = torch::zeros_like(way.step);
  for (std::int64_t from = 0; from < places.size(0); from += at_once) {
    const torch::Tensor input =
        (way.base + places.slice(0, from, from + at_once) * way.step).detach().requires_grad_();
    const torch::Tensor output = number(input, way.weights).sum();
    const torch::Tensor gradient = torch::autograd::grad({output}, {input}).front();
    sum += (gradient * weights.slice(0, from, from + at_once)).sum(0, true);
  }
  return (sum.to(torch::kFloat64) * way.step.to(torch::kFloat64)).sum(2).squeeze(0);
}

LateBlocks::Added LateBlocks::added_on(const Way& way, double tolerance) const {
  double explained = 0;
  {
    const torch::NoGradGuard no_grad;
    const torch::Tensor ends = number(torch::cat({way.base, way.base + way.step}), way.weights);
    explained = (ends[1] - ends[0]).item<double>();
  }
  Added added;
  for (std::size_t points = kMinPoints;; points *= 2) {
    added.tokens = integrate(way, points);
    added.gap = std::abs(added.tokens.sum().item<double>() - explained);
    if (added.gap <= tolerance || 2 * points > kMaxPoints) return added;
  }
}

std::vector<PatchContributions> LateBlocks::explain(const torch::Tensor& rows,
                                                    std::span<const FrameNumber> numbers,
                                                    const std::function<void()>& done) const {
  const std::int64_t n = rows.size(0), prefix = source_.architecture().prefix_tokens();
  std::vector<PatchContributions> results(numbers.size());
  for (PatchContributions& result : results)
    result.patches = torch::zeros({n, grid_.rows, grid_.columns}, torch::kFloat64);
  for (std::int64_t frame = 0; frame < n; ++frame) {
    const torch::Tensor tokens = entering(rows.slice(0, frame, frame + 1));
    torch::Tensor base = tokens.clone();
    torch::Tensor patches = base.narrow(1, prefix, grid_.patches());
    patches.copy_(patches.mean(1, true).expand_as(patches));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const torch::Tensor weights = numbers[i].weights[frame].to(device_, torch::kFloat32);
      const Added added = added_on({base, tokens - base, weights}, numbers[i].tolerance);
      results[i].largest_gap = std::max(results[i].largest_gap, added.gap);
      results[i].patches[frame].copy_(
          added.tokens.narrow(0, prefix, grid_.patches()).view({grid_.rows, grid_.columns}));
      done();
    }
  }
  return results;
}

namespace {

namespace fs = std::filesystem;

torch::Tensor first_rows(const torch::Tensor& rows, std::size_t most) {
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
  return {first_rows(gradient, most), kCompleteness * exam.unit / static_cast<double>(vits)};
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

std::vector<MappedFrame> mapped_frames(const cache::ExamInfo& exam, std::size_t most) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < exam.frames(); ++slot)
    if (exam.present[slot]) slots.push_back(slot);
  std::vector<MappedFrame> frames;
  for (const std::size_t place : cache::middles_of_parts(slots.size(), most))
    frames.push_back({slots[place], place});
  return frames;
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
        vit_->blocks.explain(first_rows(cut_.window().features, most), asked, frame_done);
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
  return first_rows(cut_.window().features, most);
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

namespace {

namespace fs = std::filesystem;

constexpr const char* kTableFile = "patches.csv";
constexpr const char* kPageFile = "index.html";

// `target`: its number among those of an exam.
std::string map_file(std::size_t slot, std::size_t target) {
  return frame_file_name(slot, target == 0 ? ".png" : concat("-", target + 1, ".png"));
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

MapWriter::MapWriter(fs::path folder, PatchMaps& maps, const SequenceReader& cache,
                     const std::vector<Target>& targets, std::size_t most, bool over_frames)
    : folder_(std::move(folder)),
      maps_(maps),
      cache_(cache),
      targets_(targets),
      most_(most),
      over_frames_(over_frames),
      page_("Maps of contributions",
            "What each patch of each frame adds, red where it raises the output and blue where it "
            "lowers it, the strongest of an exam in full colour; below it, what the frame adds.") {
  page_.reads_files = true;
  fs::create_directory(folder_);
}

void MapWriter::add(std::size_t place, std::span<const ExplainedExam> explained,
                    std::span<const torch::Tensor> maps) {
  const std::string& exam = cache_.exams()[explained.front().exam].id;
  const std::string folder = exam_folder_name(place, exam);
  fs::create_directory(folder_ / folder);
  write(folder_ / folder, explained, maps);
  std::string body;
  for (std::size_t t = 0; t < explained.size(); ++t) body += drawn(folder, explained[t], t);
  page_.section(exam, body);
}

void MapWriter::finish() {
  write_exam_file(folder_ / kPageFile, page_.finish());
}

std::string MapWriter::drawn(const std::string& folder, const ExplainedExam& explained,
                             std::size_t number) const {
  const cache::ExamInfo& info = cache_.exams()[explained.exam];
  const Target& target = targets_[explained.target];
  const Contributions& values = explained.values;
  std::vector<html::PictureFile> pictures;
  for (const auto& [slot, present] : mapped_frames(info, most_)) {
    const double added = values.frames[present];
    pictures.push_back({concat(folder, "/", map_file(slot, number)),
                        concat("frame ", slot, ": ", added < 0 ? "" : "+", fixed(added, 4))});
  }
  const std::size_t frames = present_frames(info);
  return html::paragraph(
             concat(target.kind().explained_output(target, explained.of_class.value_or(0)), " = ",
                    fixed(values.output, 2), ", of ", baseline_name(explained), " ",
                    fixed(values.baseline, 2),
                    frames > pictures.size()
                        ? concat("; ", pictures.size(), " of ", frames, " frames, evenly spaced")
                        : "")) +
         html::picture_files(pictures);
}

void MapWriter::write(const fs::path& folder, std::span<const ExplainedExam> explained,
                      std::span<const torch::Tensor> maps) {
  const std::size_t exam = explained.front().exam;
  const cache::ExamInfo& info = cache_.exams()[exam];
  const torch::Tensor pixels = over_frames_ ? maps_.pixels_of(exam, most_) : torch::Tensor();
  std::string csv =
      csv_row({"frame", "time_s", "target", "class", "row", "column", "contribution"});
  const std::vector<MappedFrame> frames = mapped_frames(info, most_);
  for (std::size_t t = 0; t < explained.size(); ++t) {
    const Target& target = targets_[explained[t].target];
    const std::string of_class =
        explained[t].of_class ? target.classes[*explained[t].of_class] : std::string();
    const double full = full_color(maps[t]);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto& [slot, present] = frames[i];
      const auto row = static_cast<std::int64_t>(i);
      const double time = info.time_s[slot];
      csv +=
          table_lines({concat(slot), std::isfinite(time) ? exact(time) : "", target.name, of_class},
                      maps[t][row], explained[t].values.frames[present]);
      write_exam_file(
          folder / map_file(slot, t),
          map_picture(maps[t][row] / full, pixels.defined() ? pixels[row] : torch::Tensor(),
                      maps_.image_size()));
    }
  }
  write_exam_file(folder / kTableFile, csv);
}

void require_maps(const fs::path& folder) {
  require_exam_files(folder, {".png", ".csv"}, "map", kPageFile);
}

}  // namespace coldframe::temporal
