// Exams of different patients that are nearly the same: one that was stored twice under different
// names, and compressed, scaled or cut in between. What is held out may then have been trained on.
//
// An exam is the mean of its frames' features, each scaled to length 1, in units of their standard
// deviations over the exams. Two exams are nearly the same if each is the other's nearest of
// another patient, and the distance between them is at most 0.7 of
// - what the frames of either lie from their mean (root mean square), so that two exams of a rare
//   device are not taken for copies because all others are far away, and
// - the distance of either to the nearest exam of a third patient, so that exams of one device are
//   not, however alike they are.
// The latter ratio r is as small as that with probability r^m among exams that m numbers describe
// (Facco et al. 2017, doi:10.1038/s41598-017-11873-y). r^m is at most 0.1 / the number of exams.
// The ratio of an exam's next two distances is as small as s with probability s^2m: its median
// gives m. Where most exams have a copy it cannot, and the limit becomes 0.7.
//
// Nothing is said of exams with a single frame, and three copies of one exam hide one another.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/run/cohort.h"

namespace coldframe::temporal {

// Of each exam's frames, scaled to length 1: [n, D] float32.
struct FrameMoments {
  torch::Tensor mean, variance;
};

struct NearCopies {
  std::size_t a = 0, b = 0;  // rows, a < b
  double difference = 0;     // in units of the distance to the nearest exam of a third patient
};
// `patient`: of each exam, in any numbering. The most alike first. Empty for fewer than 8 exams.
// Exams whose features are equal to the bit are left out.
std::vector<NearCopies> near_copies(const FrameMoments& exams,
                                    const std::vector<std::size_t>& patient);

// A warning that names such exams among `exams` (by index; of a dataset loaded from the cohort's
// cache); empty if there are none, or more than 16384 exams.
std::string warn_of_near_copies(const Dataset& dataset, const Cohort& cohort,
                                const std::vector<std::size_t>& exams);

}  // namespace coldframe::temporal
