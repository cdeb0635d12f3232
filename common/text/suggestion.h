// What a message about an unknown word says of the known ones.
#pragma once

#include <string>
#include <vector>

namespace coldframe {

// "label, age; did you mean 'label'?" for "lable"; without the question where none is near, "none"
// where there are none.
std::string known_words(const std::vector<std::string>& known, const std::string& word);

}  // namespace coldframe
