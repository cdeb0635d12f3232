// A synthetic vascular bed: what an angiogram looks at.
#pragma once

#include <opencv2/core.hpp>

namespace coldframe::examples {

// Each compartment's place is a coverage 0…1, float32 [S, S].
struct VascularBed {
  cv::Mat arteries, veins;
  cv::Mat tissue;   // what is not vessel, unevenly perfused
  cv::Mat texture;  // static background around zero, standard deviation about 1
};

VascularBed draw_vascular_bed(cv::RNG& random, int size);

// Noise whose structures are about `scale` pixels wide, zero mean, standard deviation 1.
cv::Mat smooth_noise(cv::RNG& random, int size, double scale);

}  // namespace coldframe::examples
