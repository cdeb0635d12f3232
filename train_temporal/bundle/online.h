// A bundle's predictions of a clip while it comes, frame by frame.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace coldframe::bundle {

// Writes a line per frame to the standard output: frame, seconds since the first, and the scores of
// every target of the frames so far (per-frame targets: of this frame), as `predict` would say of a
// clip that ends there. The log tells the time that a frame takes, from its pixels to its line.
// `clip`: a file, or "-" for the standard input; `words` as extract_options() takes them. A stop
// request ends it as the clip's end does. ConfigError for models that need the whole sequence, by
// name, for tuned ones, and for recipes that look at all frames first (a crop that is found, a
// selection of frames).
void predict_online(const std::filesystem::path& bundle, const std::filesystem::path& clip,
                    const std::vector<std::string>& words);

}  // namespace coldframe::bundle
