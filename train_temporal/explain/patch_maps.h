// What each patch of each frame adds to what models say of exams, through the ViT behind each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/text/image_size.h"
#include "train_temporal/data/feature_stream.h"
#include "train_temporal/explain/contributions.h"

namespace coldframe::temporal {

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

}  // namespace coldframe::temporal
