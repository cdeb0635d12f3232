// Numbers as text that loses nothing.
#pragma once

#include <string>

namespace coldframe {

// The shortest text that reads back as the same number: 0.1953125 -> "0.1953125", 40.0 -> "40",
// 1e6 -> "1e+06"; not a number -> "nan". Streams (concat) keep six digits only.
std::string exact(double value);

}  // namespace coldframe
