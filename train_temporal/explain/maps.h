// What each patch of a frame adds to a number that a ViT's features make: integrated gradients on
// the tokens that enter a late block. They begin where every patch is the frame's mean patch. The
// prefix tokens stay as they are: what they hold is no patch's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/text/text.h"
#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/tuned_source.h"

namespace coldframe::temporal {

// A frame's number is the sum of its features with its row of `weights` [n, F]. Points are added
// until no gap is larger than `tolerance`.
struct FrameNumber {
  torch::Tensor weights;
  double tolerance = 0;
};

struct PatchContributions {
  torch::Tensor patches;   // [n, rows, columns] float64
  double largest_gap = 0;  // of any frame: |Σ patches − what they explain|
};

class LateBlocks {
 public:
  // The source must live on.
  LateBlocks(const tune::TunedSource& source, const torch::Device& device);

  std::int64_t block() const { return block_; }  // whose input is looked at, counted from 0
  const vit::Grid& grid() const { return grid_; }

  // `rows`: n frames as the cut stores them. `done` is called after each frame of each number.
  std::vector<PatchContributions> explain(const torch::Tensor& rows,
                                          std::span<const FrameNumber> numbers,
                                          const std::function<void()>& done) const;

 private:
  struct Way;
  struct Added {
    torch::Tensor tokens;  // [N] float64, what each adds
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

// What each patch of each frame adds to what models say of exams, through the ViT behind each.

// ConfigError where such a model has nothing to map: the backbone is no ViT, it sees no frames, or
// frames of several streams, or the ViT's weights are not given.
void check_maps(const ModelMetadata& card, const std::filesystem::path& weights);
// ConfigError.
void require_cut(const SequenceReader& cache);
// So many ViTs are behind these models.
std::size_t count_vits(std::span<const TrainedModel> models);

class PatchMaps {
 public:
  // `card`: of any of the models. `weights`: of the ViT that made the cache, which is read here;
  // tuned models have their own. `dataset`: loaded from the cache, which has a cut. It must live
  // on.
  PatchMaps(const ModelMetadata& card, const Dataset& dataset,
            const std::filesystem::path& weights);
  ~PatchMaps();

  // Of exams with the gradients of these models, those of one exam side by side: for each
  // [frames, rows, columns], of the frames that are present, or of `most` of them, evenly spaced.
  // `frame_done` is called after each frame of each entry and ViT: ViTs go through the frames one
  // after another, and one is in memory at a time.
  std::vector<torch::Tensor> of(std::span<const TrainedModel> models,
                                std::span<const ExplainedExam> exams, std::size_t most,
                                const std::function<void()>& frame_done);
  // [frames, H, W, 3] of the same frames; undefined where the cut holds no pixels.
  torch::Tensor pixels_of(std::size_t exam, std::size_t most);

  // Known once there is a map.
  std::int64_t block() const { return block_; }
  const ImageSize& image_size() const { return image_size_; }
  // The largest of any frame, in units of what is explained (for a number, standard deviations).
  double largest_gap() const { return largest_gap_; }

 private:
  class Vit;
  void open_vit(const ModelMetadata& card, const std::filesystem::path& weights);
  // `place`: of the ViT among `vits` of them.
  void add_vit(std::size_t place, std::size_t vits, std::span<const ExplainedExam> exams,
               std::size_t most, const std::function<void()>& frame_done,
               std::vector<torch::Tensor>& maps, std::vector<double>& gaps);

  const Dataset& dataset_;
  FeatureStream cut_;         // the rows of present frames, as the cut stores them
  std::unique_ptr<Vit> vit_;  // the frozen one stays, a tuned one goes before the next
  std::int64_t block_ = 0;
  ImageSize image_size_;
  double largest_gap_ = 0;
};

// A PNG file: `map` [rows, columns] from -1 to 1, over the frame's pixels [H, W, 3], or over white
// where these are undefined. What adds is red, what takes away blue, the more the stronger.
std::string map_picture(const torch::Tensor& map, const torch::Tensor& pixels,
                        const ImageSize& size);
// The largest magnitude of an exam's maps, which gets full colour.
double full_color(const torch::Tensor& maps);

// What each patch of each frame adds to what is said of an exam, as files: `predict --maps`.

class MapWriter {
 public:
  // `folder`: made here. The models and the dataset must live on; the others as PatchMaps has them.
  MapWriter(std::filesystem::path folder, std::span<const TrainedModel> models,
            const Dataset& dataset, const std::filesystem::path& weights);

  // Of each exam PLACE-EXAM/patches.csv and a picture of each frame, SLOT.png; of further targets
  // SLOT-2.png and so on. `exams`: with their gradients, each exam with all of its `targets`. The
  // first one's place is `place`.
  void add(std::size_t place, std::span<const ExplainedExam> exams, std::size_t targets,
           const std::function<void()>& frame_done);

  const PatchMaps& maps() const { return maps_; }

 private:
  void write(const std::filesystem::path& folder, std::span<const ExplainedExam> targets,
             std::span<const torch::Tensor> maps);

  std::filesystem::path folder_;
  std::span<const TrainedModel> models_;
  const SequenceReader& cache_;
  PatchMaps maps_;
};

// What `--overwrite` may replace.
void require_maps(const std::filesystem::path& folder);

}  // namespace coldframe::temporal
