// Times of the layers of one forward pass, as the device takes them.
#pragma once

#include <c10/core/Event.h>

#include <chrono>
#include <string>
#include <vector>

#include "extract/vit/gpu/options.h"

namespace coldframe::vit::gpu {

// A kind of layer in one pass, all blocks together.
struct LayerCost {
  std::string layer;
  double operations = 0;  // multiplications and additions of its matrix products
  double bytes = 0;       // of the tensors that it reads and writes, each once
  double seconds = 0;
};

class LayerClock {
 public:
  explicit LayerClock(const EngineOptions& options);

  // Counts all that was launched since the last mark, on the current stream, as this layer.
  void mark(const std::string& layer, double operations, double bytes);

  // Waits for the device. Layers come in the order of their first marks.
  std::vector<LayerCost> read() const;

 private:
  // A moment of the device's time; of a CPU, which computes as it is called, of cpu_time's.
  struct Moment {
    c10::Event event;
    std::chrono::steady_clock::time_point time;
  };
  Moment now() const;
  double seconds(const Moment& from, const Moment& to) const;

  const EngineOptions& options_;
  std::vector<Moment> moments_;   // the start, then one behind each of
  std::vector<LayerCost> marks_;  // these, whose seconds are not known yet
};

}  // namespace coldframe::vit::gpu
