// The contribution of each patch of a frame to a linear function of a ViT's features, by integrated
// gradients on the input tokens of a late block. The baseline sets every patch to the frame's mean
// patch. Prefix tokens do not change: their content belongs to no patch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/tuned_source.h"

namespace coldframe::temporal {

// A frame's number is the dot product of its features with its row of `weights` [n, F]. Points are
// added until no gap exceeds `tolerance`.
struct FrameNumber {
  torch::Tensor weights;
  double tolerance = 0;
};

struct PatchContributions {
  torch::Tensor patches;   // [n, rows, columns] float64
  double largest_gap = 0;  // max over frames of |Σ patches − what they explain|
};

class LateBlocks {
 public:
  // The source must live on.
  LateBlocks(const tune::TunedSource& source, const torch::Device& device);

  std::int64_t block() const { return block_; }  // index of the block whose input is attributed
  const vit::Grid& grid() const { return grid_; }

  // `rows`: n frames as stored in the cut. Calls `done` after each frame of each number.
  std::vector<PatchContributions> explain(const torch::Tensor& rows,
                                          std::span<const FrameNumber> numbers,
                                          const std::function<void()>& done) const;

 private:
  struct Way;
  struct Added {
    torch::Tensor tokens;  // [N] float64 contributions
    double gap = 0;
  };
  torch::Tensor entering(const torch::Tensor& row) const;
  torch::Tensor number(torch::Tensor tokens, const torch::Tensor& weights) const;
  torch::Tensor integrate(const Way& way, std::size_t points) const;
  Added added_on(const Way& way, double tolerance) const;

  const tune::TunedSource& source_;
  torch::Device device_;
  std::int64_t block_;
  vit::Grid grid_;
  tune::Chain early_, late_;  // from the cut; from the block
};

// The contribution of each patch of each frame to the models' outputs, through the ViT of each.

// ConfigError if the model cannot be mapped: the backbone is not a ViT, it sees no frames, or
// frames of several streams, or the ViT's weights are not given.
void check_maps(const ModelMetadata& card, const std::filesystem::path& weights);
// ConfigError.
void require_cut(const SequenceReader& cache);
// The number of different ViTs of these models.
std::size_t count_vits(std::span<const TrainedModel> models);

inline constexpr std::size_t kAllFrames = std::numeric_limits<std::size_t>::max();

// A frame that is mapped: its slot in the exam, and its index among the present frames.
struct MappedFrame {
  std::size_t slot, present;
};
// The present frames of an exam, or at most `most` evenly spaced ones.
std::vector<MappedFrame> mapped_frames(const cache::ExamInfo& exam, std::size_t most);

class PatchMaps {
 public:
  // `card`: of any of the models. `weights`: of the ViT that made the cache, read here; tuned
  // models have their own. `dataset`: loaded from a cache with a cut; must outlive this.
  PatchMaps(const ModelMetadata& card, const Dataset& dataset,
            const std::filesystem::path& weights);
  ~PatchMaps();

  // `exams`: with the gradients of these models; entries of the same exam must be adjacent. Returns
  // for each [frames, rows, columns], for mapped_frames(exam, most). Calls `frame_done` after each
  // frame of each entry and ViT: ViTs process the frames one after another, and one is in memory at
  // a time.
  std::vector<torch::Tensor> of(std::span<const TrainedModel> models,
                                std::span<const ExplainedExam> exams, std::size_t most,
                                const std::function<void()>& frame_done);
  // [frames, H, W, 3] of the same frames; undefined if the cut has no pixels.
  torch::Tensor pixels_of(std::size_t exam, std::size_t most);

  // Known once there is a map.
  std::int64_t block() const { return block_; }
  const ImageSize& image_size() const { return image_size_; }
  // The max over frames, in units of the explained output (for a number, standard deviations).
  double largest_gap() const { return largest_gap_; }

 private:
  class Vit;
  void open_vit(const ModelMetadata& card, const std::filesystem::path& weights);
  // `place`: index of the ViT among `vits`.
  void add_vit(std::size_t place, std::size_t vits, std::span<const ExplainedExam> exams,
               std::size_t most, const std::function<void()>& frame_done,
               std::vector<torch::Tensor>& maps, std::vector<double>& gaps);

  const Dataset& dataset_;
  FeatureStream cut_;         // the rows of present frames, as stored in the cut
  std::unique_ptr<Vit> vit_;  // the frozen one is kept, a tuned one is freed before the next
  std::int64_t block_ = 0;
  ImageSize image_size_;
  double largest_gap_ = 0;
};

// A PNG file: `map` [rows, columns] from -1 to 1, overlaid on the frame's pixels [H, W, 3], or on
// white if these are undefined. Positive contributions are red, negative ones blue, with intensity
// by magnitude.
std::string map_picture(const torch::Tensor& map, const torch::Tensor& pixels,
                        const ImageSize& size);
// The max magnitude of an exam's maps, which gets full colour.
double full_color(const torch::Tensor& maps);

// Writes patch contributions to files: `predict --maps` and `train --maps`.

class MapWriter {
 public:
  // `folder`: created here. `maps`: where maps come from, of exams of `cache` and these targets;
  // all three must outlive this. At most `most` frames of an exam are mapped, over their pixels if
  // `over_frames` is true and the cut has them.
  MapWriter(std::filesystem::path folder, PatchMaps& maps, const SequenceReader& cache,
            const std::vector<Target>& targets, std::size_t most = kAllFrames,
            bool over_frames = true);

  // Writes PLACE-EXAM/patches.csv and an image of each mapped frame, SLOT.png; for further targets
  // SLOT-2.png and so on. `explained`: an exam with each of its targets; `maps`: of these, from
  // PatchMaps::of().
  void add(std::size_t place, std::span<const ExplainedExam> explained,
           std::span<const torch::Tensor> maps);
  // Writes index.html: the images of all exams, with what the frames add.
  void finish();

 private:
  void write(const std::filesystem::path& folder, std::span<const ExplainedExam> explained,
             std::span<const torch::Tensor> maps);
  // What the page shows of one target of an exam, whose images lie in `folder`.
  std::string drawn(const std::string& folder, const ExplainedExam& explained,
                    std::size_t number) const;

  std::filesystem::path folder_;
  PatchMaps& maps_;
  const SequenceReader& cache_;
  const std::vector<Target>& targets_;
  std::size_t most_;
  bool over_frames_;
  html::Page page_;
};

// Checks that `--overwrite` may replace the folder.
void require_maps(const std::filesystem::path& folder);

}  // namespace coldframe::temporal
