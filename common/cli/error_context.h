// What a DataError is about, said by whoever knows it.
#pragma once

#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

// What `work` returns. A DataError of its comes out with `subject` in front: "SUBJECT: what it
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
