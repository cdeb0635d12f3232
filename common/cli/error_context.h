// An error says what it is about: whoever knows it puts that in front.
#pragma once

#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

// Returns what `work` does. A DataError of it comes out with `subject` in front: "SUBJECT: what it
// said".
template <typename Work>
decltype(auto) in_context(const std::string& subject, const Work& work) {
  try {
    return work();
  } catch (const DataError& error) {
    throw DataError(concat(subject, ": ", error.what()));
  }
}

}  // namespace coldframe
