// Frames of several streams (FA and ICGA, T1 and T2) that show the same instant.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace coldframe {

// The instant of each frame, counted from 0 in the order of time. `times`: seconds; `streams`: the
// number of each frame's stream. Frames of different streams within a millisecond are of one
// instant; of several frames of one stream at that time the first belongs to the first of the
// others, and so on. Where a frame's time is unknown (NaN), the first frames of all streams are of
// one instant, then the second ones.
std::vector<std::size_t> instants_of(std::span<const double> times,
                                     std::span<const std::size_t> streams);

}  // namespace coldframe
