#include "common/text/suggestion.h"

#include "common/text/text.h"

namespace coldframe {

std::string known_words(const std::vector<std::string>& known, const std::string& word) {
  const std::string near = nearest(word, known);
  return concat(known.empty() ? "none" : join(known, ", "),
                near.empty() ? "" : concat("; did you mean '", near, "'?"));
}

}  // namespace coldframe
